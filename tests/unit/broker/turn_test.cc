// Goal: a turn is all or nothing, wakes who waits, and answers with what was committed.

#include "broker/turn.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "bench.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

namespace {

struct Peer {
    explicit Peer(uint64_t id, Caller caller, Seat mailbox = {"jordan", ""}) {
        connection.id = id;
        connection.caller = std::move(caller);
        connection.mailbox = std::move(mailbox);
    }

    Connection connection;
};

Item item(Peer& peer,
          int64_t id,
          const std::string& verb,
          json::Value args,
          const std::string& cap = "") {
    return {&peer.connection, {id, verb, cap, std::move(args)}};
}

json::Value wait_for(const std::string& in_reply_to = "") {
    return wire::MessageReceiveArgs{true, in_reply_to}.to_value();
}

const Done* find(const std::vector<Done>& done, const Peer& peer, int64_t id) {
    for (const Done& one : done) {
        if (one.to == &peer.connection && one.outcome.reply.id == id) {
            return &one;
        }
    }
    return nullptr;
}

std::string body_of(const Done* done) {
    if (done == nullptr) {
        return "(no reply)";
    }
    const json::Value* message = done->outcome.reply.result.find("message");
    return message == nullptr ? "(no message)" : text_of(*message, "body");
}

// A file-size limit stands for a full disk: every write that would grow a file beyond it fails.
class FullDisk {
  public:
    explicit FullDisk(rlim_t bytes = 1) {
        std::signal(SIGXFSZ, SIG_IGN);
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
        rlimit none = before_;
        none.rlim_cur = bytes;
        REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
    }

    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

    ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

  private:
    rlimit before_{};
};

Caller human() {
    return {Caller::Kind::human, "", 0};
}

}  // namespace

TEST_CASE("who waits gets the message of the same turn and of a later one") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    Turns turns(bench.store, bench.core);
    Peer session(16, coder.caller, coder.seat);
    Peer admin(17, human());
    const auto done =
        turns.run({item(session, 1, "message.receive", wait_for(), coder.cap),
                   item(admin, 1, "message.send", letter({"coder", ""}, "a").to_value()),
                   item(session, 2, "message.receive", wait_for(), coder.cap)},
                  bench.now);
    CHECK(body_of(find(done, session, 1)) == "a");
    CHECK(find(done, session, 2) == nullptr);
    CHECK(session.connection.waits == 1);
    // The second is served once the first is acked.
    CHECK(find(turns.run({item(admin, 2, "message.send", letter({"coder", ""}, "b").to_value())},
                         bench.now),
               session,
               2) == nullptr);
    const auto acked = turns.run(
        {item(session, 3, "message.ack", wire::MessageAckArgs{"m1"}.to_value(), coder.cap)},
        bench.now);
    CHECK(find(acked, session, 3)->outcome.reply.ok);
    CHECK(body_of(find(acked, session, 2)) == "b");
    CHECK(session.connection.waits == 0);
}

TEST_CASE("who waits for a reply gets it before who takes what comes") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    Turns turns(bench.store, bench.core);
    Peer session(16, coder.caller, coder.seat);
    Peer inbox(17, human());
    Peer asker(18, human());
    static_cast<void>(
        turns.run({item(inbox, 1, "message.receive", wait_for()),
                   item(asker, 1, "message.send", letter({"coder", ""}, "q").to_value()),
                   item(asker, 2, "message.receive", wait_for("m1"))},
                  bench.now));
    auto reply = letter({"jordan", ""}, "answer");
    reply.in_reply_to = "m1";
    Peer late(19, human());
    const auto done = turns.run(
        {item(session, 1, "message.send", reply.to_value(), coder.cap),
         item(late, 1, "message.receive", wire::MessageReceiveArgs{}.to_value()),
         item(session, 2, "message.send", letter({"jordan", ""}, "note").to_value(), coder.cap)},
        bench.now);
    CHECK(body_of(find(done, asker, 2)) == "answer");
    CHECK(body_of(find(done, inbox, 1)) == "note");
    CHECK(body_of(find(done, late, 1)) == "(none)");
}

TEST_CASE("a waiting receive of a released role is told so") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    Turns turns(bench.store, bench.core);
    Peer session(16, coder.caller, coder.seat);
    const auto done = turns.run({item(session, 1, "message.receive", wait_for(), coder.cap),
                                 item(session, 2, "role.release", kNothing, coder.cap)},
                                bench.now);
    REQUIRE(find(done, session, 1) != nullptr);
    CHECK(find(done, session, 1)->outcome.reply.error == "not-authorized");
    CHECK(find(done, session, 2)->outcome.reply.ok);
}

TEST_CASE("who follows events gets the turn's events in one reply") {
    Bench bench;
    Turns turns(bench.store, bench.core);
    Peer follower(16, human());
    Peer admin(17, human());
    const json::Value follow = wire::EventsArgs{0, true}.to_value();
    CHECK(turns.run({item(follower, 1, "events", follow)}, bench.now).empty());
    const auto done = turns.run(
        {item(admin, 1, "launches.revoke", kNothing), item(admin, 2, "launches.allow", kNothing)},
        bench.now);
    REQUIRE(find(done, follower, 1) != nullptr);
    CHECK(find(done, follower, 1)->outcome.reply.result.find("events")->array()->size() == 2);
    CHECK(follower.connection.waits == 0);
}

TEST_CASE("a connection that goes takes what it waits for along") {
    Bench bench;
    Turns turns(bench.store, bench.core);
    Peer admin(17, human());
    {
        Peer gone(16, human());
        CHECK(turns
                  .run({item(gone, 1, "message.receive", wait_for()),
                        item(gone, 2, "events", wire::EventsArgs{99, true}.to_value())},
                       bench.now)
                  .empty());
        turns.forget(gone.connection);
    }
    const auto done = turns.run(
        {item(admin, 1, "message.send", letter({"jordan", ""}, "x").to_value())}, bench.now);
    CHECK(done.size() == 1);
}

TEST_CASE("on a full disk what writes is refused, what reads is answered from the state before") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    Turns turns(bench.store, bench.core);
    Peer session(16, coder.caller, coder.seat);
    Peer admin(17, human());
    Peer follower(18, human());
    static_cast<void>(
        turns.run({item(session, 1, "message.receive", wait_for(), coder.cap)}, bench.now));
    const auto events_before = bench.store.events(0, 1000)->size();
    {
        const FullDisk full;
        const auto done = turns.run(
            {item(admin, 1, "message.send", letter({"coder", ""}, "lost").to_value()),
             item(admin, 2, "sessions", kNothing),
             item(session, 2, "message.receive", wire::MessageReceiveArgs{}.to_value(), coder.cap),
             item(admin, 3, "launch", json::Object{{"instance", "coder"}}),
             item(follower, 1, "message.receive", wait_for())},
            bench.now);
        CHECK_FALSE(turns.problem().empty());
        CHECK(find(done, admin, 1)->outcome.reply.error == "storage-unavailable");
        CHECK(find(done, admin, 2)->outcome.reply.ok);
        CHECK(body_of(find(done, session, 2)) == "(none)");
        CHECK(find(done, session, 1) == nullptr);
        CHECK(done.size() == 4);  // and the launch is forwarded
    }
    CHECK(session.connection.waits == 1);
    CHECK(session.connection.caller.delivered == 0);
    CHECK(follower.connection.waits == 1);
    CHECK(bench.store.events(0, 1000)->size() == events_before);
    const auto done = turns.run(
        {item(admin, 4, "message.send", letter({"coder", ""}, "kept").to_value())}, bench.now);
    CHECK(turns.problem().empty());
    CHECK(find(done, admin, 4)->outcome.reply.ok);
    CHECK(text_of(find(done, admin, 4)->outcome.reply.result, "id") == "m1");
    CHECK(body_of(find(done, session, 1)) == "kept");
}

TEST_CASE("of a turn that doesn't fit on the disk nothing is kept, though a part would fit") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    Turns turns(bench.store, bench.core);
    Peer admin(17, human());
    const auto events_before = bench.store.events(0, 1000)->size();
    {
        const auto log = std::filesystem::file_size(bench.scratch.store() + "-wal");
        const FullDisk nearly(log + size_t{48} * 1024);
        const std::string large(limits::kMessageBodyBytesMax, 'x');
        const auto done =
            turns.run({item(admin, 1, "message.send", letter({"coder", ""}, large).to_value()),
                       item(admin, 2, "message.send", letter({"coder", ""}, "small").to_value())},
                      bench.now);
        CHECK(find(done, admin, 1)->outcome.reply.error == "storage-unavailable");
        CHECK(find(done, admin, 2)->outcome.reply.error == "storage-unavailable");
    }
    CHECK(bench.store.events(0, 1000)->size() == events_before);
    CHECK_FALSE(bench.store.front(coder.seat)->has_value());
}

TEST_CASE("an answer that the disk took from a waiting receiver comes when there is room again") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    Turns turns(bench.store, bench.core);
    Peer session(16, coder.caller, coder.seat);
    Peer asker(18, human());
    static_cast<void>(
        turns.run({item(asker, 1, "message.send", letter({"coder", ""}, "q").to_value()),
                   item(asker, 2, "message.receive", wait_for("m1"))},
                  bench.now));
    auto reply = letter({"jordan", ""}, "answer");
    reply.in_reply_to = "m1";
    {
        const FullDisk full;
        const auto done =
            turns.run({item(session, 1, "message.send", reply.to_value(), coder.cap)}, bench.now);
        CHECK(find(done, session, 1)->outcome.reply.error == "storage-unavailable");
        CHECK(find(done, asker, 2) == nullptr);
    }
    const auto done =
        turns.run({item(session, 2, "message.send", reply.to_value(), coder.cap)}, bench.now);
    CHECK(body_of(find(done, asker, 2)) == "answer");
}
