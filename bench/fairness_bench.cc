#include "bench/fairness_bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/instant.h"
#include "bench/bus.h"
#include "bench/flooder.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "bench/scratch.h"
#include "bench/statistics.h"

namespace mosaic::bench {
namespace {

constexpr const char* kRole = "other";

class FairnessBench {
  public:
    FairnessBench(const Options& options, Waiter& waiter, Scratch& scratch)
        : waiter_(waiter), scratch_(scratch) {
        report_.options = options;
    }

    Result<void> run() {
        const Options& options = report_.options;
        report_.machine = machine_facts(scratch_.root());
        MOSAIC_TRY_ASSIGN(bus_, Bus::start(scratch_, waiter_, options.broker));
        MOSAIC_TRY_ASSIGN(flooder_, Flooder::start(*bus_, waiter_));
        // What the first of each brings into memory isn't measured.
        FairnessTimes unmeasured;
        MOSAIC_TRY(sessions(1, unmeasured));
        const int each = (options.sessions + options.rounds - 1) / options.rounds;
        for (int round = 0; round < options.rounds; ++round) {
            // Now the one first, now the other.
            for (const bool flooded : {round % 2 != 0, round % 2 == 0}) {
                MOSAIC_TRY(flooded ? beside_flood(each) : sessions(each, report_.quiet));
            }
            std::fprintf(stderr,
                         "block %d of %d: message p50 %s ms quiet, %s flooded; load %s\n",
                         round + 1,
                         options.rounds,
                         ms_text(percentile(report_.quiet.message_us, 50)).c_str(),
                         ms_text(percentile(report_.flooded.message_us, 50)).c_str(),
                         load_average().c_str());
        }
        report_.load_after = load_average();
        print_fairness_report(report_);
        return {};
    }

  private:
    Result<void> beside_flood(int count) {
        const Instant begun = monotonic_now();
        MOSAIC_TRY(flooder_->begin());
        MOSAIC_TRY(sessions(count, report_.flooded));
        MOSAIC_TRY_ASSIGN(const int64_t answered, flooder_->stop());
        report_.flood_answers += answered;
        report_.flood_us += to_us(monotonic_now() - begun);
        return {};
    }

    // Each claims, sends itself messages, takes them, and ends.
    Result<void> sessions(int count, FairnessTimes& out) {
        for (int i = 0; i < count; ++i) {
            std::array<char, 32> run{};
            std::snprintf(run.data(), run.size(), "r%012x", static_cast<unsigned>(++runs_));
            MOSAIC_TRY(session(run.data(), out));
        }
        return {};
    }

    Result<void> session(const std::string& run, FairnessTimes& out) {
        MOSAIC_TRY_ASSIGN(const std::string cap, bus_->bind(kRole, run, ::getpid()));
        MOSAIC_TRY_ASSIGN(UniqueFd socket, connect_to(bus_->path()));
        BusLine line(std::move(socket), waiter_);
        const auto measure = [&](std::vector<int64_t>& us, const char* verb, json::Value args) {
            const Instant begin = monotonic_now();
            auto reply = line.ask(verb, std::move(args), cap);
            us.push_back(to_us(monotonic_now() - begin));
            return reply;
        };
        MOSAIC_TRY(measure(out.claim_us, "role.claim", wire::ClaimArgs{run}.to_value()));
        for (int i = 0; i < report_.options.messages; ++i) {
            wire::MessageSendArgs message;
            message.to = {kRole, ""};
            message.message_class = wire::MessageClass::note;
            message.body = "hello";
            MOSAIC_TRY_ASSIGN(const wire::Reply sent,
                              measure(out.message_us, "message.send", message.to_value()));
            const json::Value* id = sent.result.find("id");
            if (id == nullptr || id->string() == nullptr) {
                return fail(Code::invalid, "message.send gave no id");
            }
            MOSAIC_TRY(line.ask("message.receive", wire::MessageReceiveArgs{}.to_value(), cap));
            MOSAIC_TRY(
                line.ask("message.ack", wire::MessageAckArgs{*id->string()}.to_value(), cap));
        }
        return bus_->end(kRole, run, ::getpid());
    }

    Waiter& waiter_;
    Scratch& scratch_;
    std::unique_ptr<Bus> bus_;
    std::unique_ptr<Flooder> flooder_;
    FairnessReport report_;
    int runs_ = 0;
};

}  // namespace

Result<void> bench_fairness(const Options& options, Waiter& waiter) {
    MOSAIC_TRY_ASSIGN(Scratch scratch, Scratch::make(options.scratch, 0));
    if (options.keep) {
        scratch.keep();
    }
    return FairnessBench(options, waiter, scratch).run();
}

}  // namespace mosaic::bench
