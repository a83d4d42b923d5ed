// Goal: whatever was answered is there when power is back, whenever it went and whatever the disk
// had not written yet, and whichever write or fsync failed before. Method: the product's turns,
// core and store on a disk that loses power at a chosen operation, or fails it; then a new store is
// opened on what is left and compared with the answers.

#include "crash_disk.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "bench.h"
#include "broker/turn.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

namespace {

constexpr int kSeeds = 40;

// What the broker has answered, and so must know for ever.
struct Answered {
    std::map<std::string, std::string> messages;  // id -> body
    std::map<std::string, std::string> ends;      // run -> reason
    std::map<std::string, Seat> claims;           // run -> seat, claimed and not ended since
    std::set<std::string> acks;
};

// The store's own directory, whose real fsyncs are nothing to these tests: in memory where there is
// such a place.
std::string place() {
    return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : MOSAIC_BUILD_DIR;
}

std::string run_name(int number) {
    const std::string digits = std::to_string(number);
    return "r" + std::string(12 - digits.size(), '0') + digits;
}

// A broker's life on the disk, until power goes. Every answer goes into `answered`.
class Life {
  public:
    Life(const std::string& path, uint64_t seed, Answered& answered)
        : random_(seed), answered_(answered) {
        opened_ = store_.open(path).has_value();
        if (opened_) {
            turns_ = std::make_unique<Turns>(store_, core_);
            host_.caller.kind = Caller::Kind::host;
            human_.caller.kind = Caller::Kind::human;
            session_.caller.kind = Caller::Kind::session;
            session_.mailbox = {"coder", ""};
            ask(host_, "config", acme().to_value());
        }
    }

    [[nodiscard]] bool opened() const { return opened_; }

    // One run's life, with a turn of several messages in it.
    void live(int number) {
        const std::string run = run_name(number);
        const Seat seat{"coder", ""};
        session_.caller.run = run;
        auto bound = ask(host_, "bindLaunch", binding(seat, run).to_value());
        if (!bound || !bound->ok) {
            return;
        }
        cap_ = *bound->result.find("cap")->string();
        if (const auto claimed = ask(session_, "role.claim", wire::ClaimArgs{run}.to_value());
            claimed && claimed->ok) {
            answered_.claims[run] = seat;
        }
        for (uint64_t i = random_() % 3; i < 4; ++i) {
            send_some(number, static_cast<int>(i));
            take_one();
        }
        end(run);
    }

    void end(const std::string& run) {
        wire::EndLaunchArgs args = ending({"coder", ""}, run);
        args.reason = random_() % 2 == 0 ? EndReason::stopped : EndReason::killed;
        const auto ended = ask(host_, "endLaunch", args.to_value());
        if (ended && ended->ok) {
            answered_.ends[run] = text_of(ended->result, "reason");
            answered_.claims.erase(run);
        }
    }

    [[nodiscard]] std::vector<std::string> bound() {
        std::vector<std::string> out;
        const auto live = store_.live_runs();
        REQUIRE(live);
        for (const Run& run : *live) {
            out.push_back(run.run);
        }
        return out;
    }

    Store& store() { return store_; }

  private:
    // Several senders' messages in one turn, so that one commit carries many answers.
    void send_some(int number, int round) {
        std::vector<Item> items;
        std::vector<std::string> bodies;
        for (uint64_t i = random_() % 4; i < 5; ++i) {
            bodies.push_back("of " + std::to_string(number) + " " + std::to_string(round) + " " +
                             std::to_string(i) + std::string(random_() % 3000, '.'));
            auto args = letter({"coder", ""}, bodies.back());
            items.push_back(
                {&human_,
                 {static_cast<int64_t>(bodies.size()), "message.send", "", args.to_value()}});
        }
        for (const Done& done : turns_->run(std::move(items), ++now_)) {
            if (done.outcome.reply.ok && done.to == &human_) {
                answered_.messages[text_of(done.outcome.reply.result, "id")] =
                    bodies[static_cast<size_t>(done.outcome.reply.id) - 1];
            }
        }
    }

    void take_one() {
        const auto got = ask(session_, "message.receive", kNothing);
        const json::Value* message = got && got->ok ? got->result.find("message") : nullptr;
        if (message == nullptr || message->object() == nullptr) {
            return;
        }
        const std::string id = text_of(*message, "id");
        const auto acked = ask(session_, "message.ack", wire::MessageAckArgs{id}.to_value());
        if (acked && acked->ok) {
            answered_.acks.insert(id);
        }
    }

    std::optional<wire::Reply> ask(Connection& from, const std::string& verb, json::Value args) {
        const std::string cap = &from == &session_ ? cap_ : "";
        for (Done& done : turns_->run({{&from, {1, verb, cap, std::move(args)}}}, ++now_)) {
            if (done.to == &from) {
                return std::move(done.outcome.reply);
            }
        }
        return std::nullopt;
    }

    std::mt19937_64 random_;
    Answered& answered_;
    bool opened_ = false;
    Store store_;
    Core core_{store_};
    std::unique_ptr<Turns> turns_;
    Connection host_;
    Connection human_;
    Connection session_;
    std::string cap_;
    int64_t now_ = 1'700'000'000'000;
};

void check_events(Store& store, const Answered& answered) {
    const auto texts = store.events(0, 100'000);
    REQUIRE(texts);
    int64_t seq = 0;
    std::map<std::string, std::string> ends;
    std::set<std::string> holders;
    size_t sent = 0;
    for (const std::string& text : *texts) {
        const json::Value event = *json::parse(text);
        CHECK(*event.find("seq")->integer() == ++seq);
        const std::string type = text_of(event, "type");
        const std::string run = text_of(event, "run");
        if (type == "role.claimed") {
            holders.insert(run);
            CHECK(holders.size() == 1);  // one seat here: one holder at any time
        } else if (type == "role.released") {
            holders.erase(run);
        } else if (type == "session.ended") {
            CHECK(ends.emplace(run, text_of(event, "reason")).second);
            holders.erase(run);
        }
        sent += type == "message.sent" ? 1U : 0U;
    }
    for (const auto& [run, reason] : answered.ends) {
        CAPTURE(run);
        CHECK(ends[run] == reason);
    }
    CHECK(sent >= answered.messages.size());
}

void check_answers(Store& store, const Answered& answered) {
    for (const auto& [id, body] : answered.messages) {
        CAPTURE(id);
        const auto message = store.find_message(std::stoll(id.substr(1)));
        REQUIRE(message);
        REQUIRE(message->has_value());
        CHECK((*message)->body == body);
        CHECK((*message)->acked >= answered.acks.contains(id));
    }
    for (const auto& [run, seat] : answered.claims) {
        CAPTURE(run);
        CHECK(*store.holder(seat) == run);
    }
    check_events(store, answered);
}

}  // namespace

TEST_CASE("what was answered survives a loss of power at any write and any fsync") {
    uint64_t crashes = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        const Scratch scratch(place());
        CrashDisk disk;
        Answered answered;
        int number = 0;
        for (int life = 0; life < 4; ++life) {
            // A store's first start is some 60 operations, a run's life some 40.
            disk.lose_power_at(1 + random() % (life == 0 ? 400 : 150));
            {
                Life broker(scratch.store(), random(), answered);
                if (broker.opened()) {
                    for (const std::string& run : broker.bound()) {
                        broker.end(run);
                    }
                }
                constexpr int kRunsMax = 100;  // far more than there is power for
                for (int i = 0; i < kRunsMax && broker.opened() && disk.has_power(); ++i) {
                    broker.live(++number);
                }
                CHECK_FALSE(disk.has_power());
            }
            ++crashes;
            disk.restart(random());
            Store left;
            const auto opened = left.open(scratch.store());
            REQUIRE_MESSAGE(opened.has_value(), opened.error().text);
            check_answers(left, answered);
        }
    }
    CHECK(crashes == 4 * kSeeds);
}

namespace {

struct Trouble {
    const char* name;
    uint64_t operations;  // so many fail, one after the other
    bool full;
};

constexpr std::array<Trouble, 2> kTroubles = {
    {{"one I/O error", 1, false}, {"a full disk", 20, true}}};

// Opens a store (a new one, or one that a broker has left), lives a run on it with the operation
// failing, and another one once the disk works. Whether the operation was reached.
bool live_through(const Trouble& trouble, uint64_t operation, bool fresh) {
    const Scratch scratch(place());
    CrashDisk disk;
    Answered answered;
    if (!fresh) {
        Life before(scratch.store(), 1, answered);
        REQUIRE(before.opened());
        before.live(1);
    }
    disk.fail_at(operation, trouble.operations, trouble.full);
    int number = 1;
    {
        Life broker(scratch.store(), 2, answered);
        if (broker.opened()) {
            broker.live(++number);
            disk.work_again();
            for (const std::string& run : broker.bound()) {
                broker.end(run);  // as its host does until it is answered
            }
            broker.live(++number);
            CHECK(answered.ends.contains(run_name(number)));
        }
    }
    const bool reached = disk.failed() > 0;
    disk.work_again();
    // The next broker finds everything, after a loss of power, too.
    disk.restart(operation);
    Life next(scratch.store(), 3, answered);
    REQUIRE(next.opened());
    check_answers(next.store(), answered);
    return reached;
}

}  // namespace

TEST_CASE("a disk error at any write and any fsync loses nothing that was answered") {
    for (const bool fresh : {true, false}) {
        for (const Trouble& trouble : kTroubles) {
            uint64_t operation = 1;
            for (bool reached = true; reached; ++operation) {
                CAPTURE(fresh);
                CAPTURE(trouble.name);
                CAPTURE(operation);
                reached = live_through(trouble, operation, fresh);
            }
            CHECK(operation > 40);
        }
    }
}

TEST_CASE("the disk of these tests loses what wasn't synced") {
    // Without this the test above could hold on a disk that forgets nothing.
    const Scratch scratch(place());
    CrashDisk disk;
    {
        Database db;
        REQUIRE(db.open(scratch.store()));
        REQUIRE(db.script("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (x);"));
        const uint64_t syncs = disk.syncs();
        REQUIRE(db.script("INSERT INTO t VALUES (1)"));
        CHECK(disk.syncs() > syncs);
        REQUIRE(db.script("PRAGMA synchronous=OFF"));
        for (int i = 0; i < 100; ++i) {
            REQUIRE(db.script("INSERT INTO t VALUES (2)"));
        }
        disk.lose_power_at(1);
        CHECK_FALSE(db.script("INSERT INTO t VALUES (3)"));
    }  // closed before the restart, which takes the memory that it shares
    disk.restart(7);
    Database after;
    REQUIRE(after.open(scratch.store()));
    int64_t rows = 0;
    REQUIRE(after.each("SELECT count(*) FROM t", [&](const Row& row) { rows = row.integer(0); }));
    CHECK(rows >= 1);
    CHECK(rows < 100);
}
