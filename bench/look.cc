#include "bench/look.h"

#include <vector>

#include "bench/machine.h"
#include "bench/sessions.h"

namespace mosaic::bench {
namespace {

// The kernel gives memory back late (grace periods, per-CPU lists): this long is waited before each
// look.
constexpr Duration kSettles = seconds(2);

}  // namespace

Result<Look> look_at_memory(const Scratch& scratch, const HostProcess& host, Waiter& waiter) {
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

MemoryRound round_of(const Look& before, const Look& live, const Look& after) {
    return {before.available - live.available,
            after.available - live.available,
            live.slab - before.slab,
            live.page_tables - before.page_tables,
            live.kernel_stacks - before.kernel_stacks,
            live.anonymous - before.anonymous,
            live.host - before.host,
            live.broker - before.broker};
}

}  // namespace mosaic::bench
