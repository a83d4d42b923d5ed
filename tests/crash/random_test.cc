// Goal: no moment of a host's life is special. Method: a seeded mixture of launches, stops,
// messages and sessions that die, and SIGKILL to the host or to its broker in the middle of it.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "crash/stage.h"

using namespace mosaic;
using namespace mosaic::crash;
using namespace mosaic::e2e;

namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
    const char* given = std::getenv(name);
    return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

// Keeps a host busy without waiting for it: requests go out on a few connections, and what comes
// back is looked at when it is there.
class Load {
  public:
    Load(Stage& stage, std::mt19937_64& random) : stage_(stage), random_(random) {}

    // For about this long, then some requests are still under way.
    void run(int64_t ms) {
        const int64_t until = now_ms() + ms;
        while (now_ms() < until) {
            one();
            take_replies(static_cast<int>(draw(12)));
        }
    }

    // What was answered before the end counts.
    void take_replies(int timeout_ms) {
        if (!admin_.valid()) {
            ::poll(nullptr, 0, timeout_ms);
            return;
        }
        while (const auto line = admin_.line(timeout_ms)) {
            take(*line);
            timeout_ms = 0;
        }
    }

  private:
    struct Sent {
        int message = -1;  // its number
    };

    uint64_t draw(uint64_t below) { return random_() % below; }

    std::string seat() {
        static const std::vector<std::string> seats = {"pm", "coder", "reviewer", "tester"};
        return seats[draw(seats.size())];
    }

    void one() {
        if (!admin_.valid() || admin_.ended()) {
            admin_ = LineStream::connect(stage_.world().bus_host() + "/admin.sock");
            sent_.clear();
            if (!admin_.valid()) {
                return;
            }
        }
        switch (draw(8)) {
            case 0:
            case 1:
            case 2:
                ask("launch", object({{"instance", seat()}}));
                break;
            case 3:
                ask("stop", object({{"target", seat()}, {"timeoutMs", draw(2) == 0 ? 0 : 10'000}}));
                break;
            case 4:
                kill_a_session();
                break;
            default: {
                const int number = stage_.ledger().next();
                ask("message.send",
                    object({{"to", "coder"},
                            {"class", "NOTE"},
                            {"body", Ledger::number_script(number)}}),
                    number);
            }
        }
    }

    void ask(std::string_view verb, json::Value args, int message = -1) {
        sent_[admin_.ask(verb, std::move(args))] = {message};
    }

    void take(const std::string& line) {
        const auto reply = json::parse(line, {.depth_max = 16});
        REQUIRE_MESSAGE(reply.has_value(), "not JSON: " << line);
        const auto found = sent_.find(number(*reply, "id"));
        REQUIRE(found != sent_.end());
        if (*reply->find("ok") == json::Value(true)) {
            const json::Value* run = reply->find("result")->find("run");
            if (found->second.message >= 0) {
                stage_.ledger().acknowledged(found->second.message);
            } else if (run != nullptr && reply->find("result")->find("model") != nullptr) {
                stage_.ledger().granted(*run->string());
            }
        }
        sent_.erase(found);
    }

    void kill_a_session() {
        const auto entries = stage_.world().sessions();
        if (!entries.empty()) {
            const json::Value& entry = entries[draw(entries.size())];
            // A runner that has been reaped since may be anybody by now.
            if (start_time_of(runner_pid(entry)) == text(entry, "runnerStartTime")) {
                ::kill(runner_pid(entry), SIGKILL);
            }
        }
    }

    Stage& stage_;
    std::mt19937_64& random_;
    LineStream admin_;
    std::map<int64_t, Sent> sent_;
};

}  // namespace

TEST_CASE("hosts and brokers killed at random moments lose nothing") {
    const uint64_t rounds = from_environment("MOSAIC_CRASH_ROUNDS", 20);
    const uint64_t seed = from_environment("MOSAIC_CRASH_SEED", 20'261'130);
    Stage stage;
    for (uint64_t round = 0; round < rounds; ++round) {
        // Each round has its own seed, so that one alone can be played again.
        std::mt19937_64 random(seed + round);
        INFO("round " << round << ": MOSAIC_CRASH_ROUNDS=1 MOSAIC_CRASH_SEED=" << seed + round);
        stage.start_product();
        if (round > 0) {
            stage.ledger().check_recovered();
        }
        set_warm_seats(stage.world(), 1);
        static_cast<void>(stage.world().admin().request("reload", json::Object{}));
        Load load(stage, random);
        // About a third of the rounds lose brokers first.
        for (uint64_t brokers = random() % 3 == 0 ? 1 + random() % 2 : 0; brokers > 0; --brokers) {
            load.run(static_cast<int64_t>(random() % 150));
            if (const pid_t broker = stage.world().broker_pid(); broker > 0) {
                ::kill(broker, SIGKILL);
            }
        }
        load.run(static_cast<int64_t>(random() % 300));
        stage.world().kill();
        load.take_replies(kWaitMs);
    }
    stage.check_and_leave_leftovers();
    stage.start_product();
}
