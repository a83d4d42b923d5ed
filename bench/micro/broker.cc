// Single requests at the broker's core, each in a turn of its own that is committed to a store on
// the scratch disk: SQLite's WAL with an fsync for each.

#include <optional>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "bench/micro/micro.h"
#include "broker/connection.h"
#include "broker/core.h"
#include "broker/store.h"
#include "broker/turn.h"
#include "wire/messages.h"

namespace mosaic::bench {
namespace {

using broker::Caller;
using broker::Connection;

wire::BrokerConfig acme() {
    wire::BrokerConfig out;
    out.business = "acme";
    out.human = "jordan";
    out.roles = {{"pm", {"message.send"}, {}, {}}, {"coder", {"message.send"}, {}, {}}};
    out.launch_by = "pm";
    out.launch_instances = {"coder"};
    out.modules = {"script"};
    return out;
}

class Bus {
  public:
    Bus() : core_(store_), turns_(store_, core_) {
        host_.caller.kind = Caller::Kind::host;
        session_.caller.kind = Caller::Kind::session;
    }

    // On a store of its own: a benchmark is called more than once. Why it can't be; empty when it
    // can.
    std::string start() {
        static int stores = 0;
        const std::string path = micro_directory() + "/" + std::to_string(++stores) + ".sqlite";
        if (auto opened = store_.open(path); !opened) {
            return opened.error().text;
        }
        return ask(host_, "config", acme().to_value()) ? "" : problem_;
    }

    // A run of the coder is bound, the connection is its runner's.
    bool bind() {
        std::string digits = std::to_string(++runs_);
        run_ = "r" + std::string(12 - digits.size(), '0') + digits;
        const auto reply = ask(host_, "bindLaunch", binding().to_value());
        const json::Value* cap = reply ? reply->result.find("cap") : nullptr;
        if (cap == nullptr || cap->string() == nullptr) {
            return false;
        }
        cap_ = *cap->string();
        session_.caller.run = run_;
        session_.mailbox = kSeat;
        return true;
    }

    bool claim() { return as_session("role.claim", wire::ClaimArgs{run_}.to_value()).has_value(); }

    bool end() {
        wire::EndLaunchArgs args;
        args.seat = kSeat;
        args.run = run_;
        args.reason = EndReason::stopped;
        args.exit_code = 0;
        args.process = binding().process;
        args.harness = "script";
        return ask(host_, "endLaunch", args.to_value()).has_value();
    }

    std::optional<wire::Reply> as_session(const std::string& verb, json::Value args) {
        return ask(session_, verb, std::move(args), cap_);
    }

    // Of the request that failed.
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    inline static const Seat kSeat{"coder", ""};

    [[nodiscard]] wire::BindLaunchArgs binding() const {
        wire::BindLaunchArgs out;
        out.seat = kSeat;
        out.run = run_;
        out.harness = "script";
        out.provider = "none";
        out.model = "echo";
        out.launched_by = "jordan";
        out.process = {100'000 + runs_, "7", 200'000 + runs_, "8"};
        return out;
    }

    // One turn of one request.
    std::optional<wire::Reply> ask(Connection& from,
                                   const std::string& verb,
                                   json::Value args,
                                   const std::string& cap = "") {
        std::vector<broker::Item> items;
        items.push_back({&from, {++id_, verb, cap, std::move(args)}});
        std::vector<broker::Done> done = turns_.run(std::move(items), id_);
        if (!turns_.problem().empty() || done.empty() || !done.front().outcome.reply.ok) {
            problem_ = verb + ": " +
                       (done.empty() ? turns_.problem()
                                     : done.front().outcome.reply.error + " " +
                                           done.front().outcome.reply.message);
            return std::nullopt;
        }
        return std::move(done.front().outcome.reply);
    }

    broker::Store store_;
    broker::Core core_;
    broker::Turns turns_;
    Connection host_;
    Connection session_;
    std::string run_;
    std::string cap_;
    std::string problem_;
    int64_t runs_ = 0;
    int64_t id_ = 0;
};

double since(Instant begin) {
    return static_cast<double>((monotonic_now() - begin).ns) * 1e-9;
}

// A message of a kilobyte sent. That it is taken and acked again isn't measured.
void broker_message(benchmark::State& state) {
    Bus bus;
    if (const std::string why = bus.start(); !why.empty()) {
        broken(state, why);
        return;
    }
    wire::MessageSendArgs message;
    message.to = {"coder", ""};
    message.message_class = wire::MessageClass::note;
    message.body = std::string(1000, 'x');
    bool fine = bus.bind() && bus.claim();
    for (auto _ : state) {
        const Instant begin = monotonic_now();
        const auto sent = bus.as_session("message.send", message.to_value());
        state.SetIterationTime(since(begin));
        const json::Value* id = sent ? sent->result.find("id") : nullptr;
        fine = fine && id != nullptr && id->string() != nullptr &&
               bus.as_session("message.receive", wire::MessageReceiveArgs{}.to_value()) &&
               bus.as_session("message.ack", wire::MessageAckArgs{*id->string()}.to_value());
        if (!fine) {
            broken(state, bus.problem());
            break;
        }
    }
}

BENCHMARK(broker_message)->UseManualTime()->Unit(benchmark::kMicrosecond);

// A bound run's claim, the last step of a launch. Binding and ending the run isn't measured.
void broker_claim(benchmark::State& state) {
    Bus bus;
    if (const std::string why = bus.start(); !why.empty()) {
        broken(state, why);
        return;
    }
    for (auto _ : state) {
        bool fine = bus.bind();
        const Instant begin = monotonic_now();
        fine = fine && bus.claim();
        state.SetIterationTime(since(begin));
        fine = fine && bus.end();
        if (!fine) {
            broken(state, bus.problem());
            break;
        }
    }
}

BENCHMARK(broker_claim)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace mosaic::bench
