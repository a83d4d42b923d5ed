#include "bench/memory_bench.h"

#include <algorithm>
#include <cstdio>

#include "bench/host_process.h"
#include "bench/machine.h"
#include "bench/product.h"
#include "bench/report.h"
#include "bench/scratch.h"
#include "bench/sessions.h"

namespace mosaic::bench {
namespace {

constexpr int kInFlight = 4;
// The kernel gives memory back late (grace periods, per-CPU lists): this long is waited before each
// look.
constexpr Duration kSettles = seconds(2);

struct Look {
    int64_t available = 0;
    int64_t slab = 0;
    int64_t page_tables = 0;
    int64_t kernel_stacks = 0;
    int64_t anonymous = 0;  // of the sessions' processes
    int64_t host = 0;
    int64_t broker = 0;
};

Result<Look> look(const Scratch& scratch, const HostProcess& host, Waiter& waiter) {
    std::vector<pollfd> nothing;
    const auto waited = waiter.wait(nothing, monotonic_now() + kSettles, "settling");
    if (!waited && waited.error().code != Code::unavailable) {
        return tl::unexpected<Error>(waited.error());
    }
    Look out;
    MOSAIC_TRY_ASSIGN(out.available, memory_kib("MemAvailable"));
    MOSAIC_TRY_ASSIGN(out.slab, memory_kib("Slab"));
    MOSAIC_TRY_ASSIGN(out.page_tables, memory_kib("PageTables"));
    MOSAIC_TRY_ASSIGN(out.kernel_stacks, memory_kib("KernelStack"));
    MOSAIC_TRY_ASSIGN(const std::vector<Session> sessions, read_sessions(scratch));
    for (const Session& session : sessions) {
        out.anonymous += process_kib(session.outer, "RssAnon");
        out.anonymous += process_kib(session.runner, "RssAnon");
    }
    out.host = process_kib(host.pid(), "VmRSS");
    out.broker = process_kib(host.broker(), "VmRSS");
    return out;
}

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
        MOSAIC_TRY_ASSIGN(const Look before, look(scratch, host, waiter));
        MOSAIC_TRY(product.launch(0, options.live, kInFlight));
        MOSAIC_TRY_ASSIGN(const Look live, look(scratch, host, waiter));
        MOSAIC_TRY(product.stop(0, options.live));
        MOSAIC_TRY_ASSIGN(const Look after, look(scratch, host, waiter));
        report.rounds.push_back({before.available - live.available,
                                 after.available - live.available,
                                 live.slab - before.slab,
                                 live.page_tables - before.page_tables,
                                 live.kernel_stacks - before.kernel_stacks,
                                 live.anonymous - before.anonymous,
                                 live.host - before.host,
                                 live.broker - before.broker});
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
