#include "bench/memory_bench.h"

#include <algorithm>
#include <cstdio>

#include "bench/host_process.h"
#include "bench/look.h"
#include "bench/machine.h"
#include "bench/product.h"
#include "bench/report.h"
#include "bench/scratch.h"

namespace mosaic::bench {
namespace {

constexpr int kInFlight = 4;

}  // namespace

Result<void> bench_memory(const Options& options, Waiter& waiter) {
    MOSAIC_TRY_ASSIGN(Scratch scratch, Scratch::make(options.scratch, options.live));
    if (options.keep) {
        scratch.keep();
    }
    MemoryReport report;
    report.options = options;
    report.machine = machine_facts(scratch.root());
    HostProcess host(scratch, waiter, options.prefix);
    MOSAIC_TRY(host.start());
    Product product(scratch, waiter);
    MOSAIC_TRY(product.connect());
    // What the first launches bring into memory for good isn't a session's.
    const int first = std::min(options.live, kInFlight);
    MOSAIC_TRY(product.launch(0, first, kInFlight));
    MOSAIC_TRY(product.stop(0, first));
    for (int i = 0; i < options.rounds; ++i) {
        MOSAIC_TRY_ASSIGN(const Look before, look_at_memory(scratch, host, waiter));
        MOSAIC_TRY(product.launch(0, options.live, kInFlight));
        MOSAIC_TRY_ASSIGN(const Look live, look_at_memory(scratch, host, waiter));
        MOSAIC_TRY(product.stop(0, options.live));
        MOSAIC_TRY_ASSIGN(const Look after, look_at_memory(scratch, host, waiter));
        report.rounds.push_back(round_of(before, live, after));
        report.host_resident = live.host;
        report.broker_resident = live.broker;
        std::fprintf(stderr,
                     "round %d of %d: %lld KiB a session; load %s\n",
                     i + 1,
                     options.rounds,
                     static_cast<long long>(report.rounds.back().available_drop / options.live),
                     load_average().c_str());
    }
    report.load_after = load_average();
    MOSAIC_TRY(host.stop());
    print_memory_report(report);
    return {};
}

}  // namespace mosaic::bench
