#include "reactor/setup.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/unique_fd.h"

namespace mosaic::reactor {

namespace {

// Each with the kernel that brought it. Newest first: a kernel that lacks one lacks all before it.
constexpr uint32_t kOptionalFlags[] = {
    IORING_SETUP_DEFER_TASKRUN,  // 6.1: completions are made when we wait, not by interrupting us
    IORING_SETUP_SINGLE_ISSUER,  // 6.0: nobody else, a forked child included, can submit (TRAP-09)
    IORING_SETUP_COOP_TASKRUN,   // 5.19
    IORING_SETUP_SUBMIT_ALL,  // 5.18: one bad request doesn't hold back those behind it (TRAP-12)
};

// Without these a completion could be lost (NODROP), a path would have to outlive the submission's
// batch (SUBMIT_STABLE), pipes and files would need different calls (RW_CUR_POS), and a deadline
// would take a request of its own (EXT_ARG).
constexpr uint32_t kFeatures =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS | IORING_FEAT_EXT_ARG;

struct Opcode {
    int number;
    const char* name;
};

constexpr Opcode kOpcodes[] = {
    {IORING_OP_ACCEPT, "ACCEPT"},
    {IORING_OP_RECV, "RECV"},
    {IORING_OP_SEND, "SEND"},
    {IORING_OP_READ, "READ"},
    {IORING_OP_WRITE, "WRITE"},
    {IORING_OP_POLL_ADD, "POLL_ADD"},
    {IORING_OP_OPENAT, "OPENAT"},
    {IORING_OP_CLOSE, "CLOSE"},
    {IORING_OP_FSYNC, "FSYNC"},
    {IORING_OP_MKDIRAT, "MKDIRAT"},
    {IORING_OP_RENAMEAT, "RENAMEAT"},
    {IORING_OP_UNLINKAT, "UNLINKAT"},
    {IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
};

// Kernel threads for what can't be done without blocking (TRAP-18): file operations share the first
// number, pipes and sockets of unusual kinds the second. With one for files every open of a launch
// waits behind the fsync of the session file: with eight files being made beside it, the slowest
// hundredth took about twice as long as with four.
constexpr unsigned kBoundedWorkers = 4;
constexpr unsigned kUnboundedWorkers = 2;

std::string read_disabled() {
    const UniqueFd fd(::open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
        return {};
    }
    std::array<char, 16> text{};
    const ssize_t size = ::read(fd.get(), text.data(), text.size());
    std::string value(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
    while (!value.empty() && value.back() == '\n') {
        value.pop_back();
    }
    return value;
}

tl::unexpected<Error> refused(std::string_view call, int sys) {
    return tl::unexpected<Error>(
        Error{Code::unavailable, sys, explain_refusal(call, sys, read_disabled())});
}

int try_flags(io_uring& ring, SetupOptions options, uint32_t flags) {
    io_uring_params params{};
    params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | flags;
    params.cq_entries = options.completions;
    return io_uring_queue_init_params(options.entries, &ring, &params);
}

Result<void> make_ring(io_uring& ring, SetupOptions options) {
    uint32_t flags = 0;
    for (const uint32_t flag : kOptionalFlags) {
        flags |= flag;
    }
    int result = try_flags(ring, options, flags);
    for (const uint32_t flag : kOptionalFlags) {
        if (result != -EINVAL) {
            break;
        }
        flags &= ~flag;
        result = try_flags(ring, options, flags);
    }
    if (result < 0) {
        return refused("io_uring_setup", -result);
    }
    return {};
}

Result<void> check_features(const io_uring& ring) {
    if ((ring.features & kFeatures) == kFeatures) {
        return {};
    }
    return fail(
        Code::unavailable,
        "io_uring can't be used: the kernel lacks features of it that came with Linux 5.11; "
        "use Linux 5.15 or newer");
}

Result<void> check_opcodes(io_uring& ring) {
    io_uring_probe* probe = io_uring_get_probe_ring(&ring);
    if (probe == nullptr) {
        // liburing hides the errno; the call is there since Linux 5.6, so that only a filter is
        // left.
        return refused("io_uring_register", EPERM);
    }
    std::string missing;
    for (const Opcode& opcode : kOpcodes) {
        if (io_uring_opcode_supported(probe, opcode.number) == 0) {
            missing += missing.empty() ? "" : ", ";
            missing += opcode.name;
        }
    }
    io_uring_free_probe(probe);
    if (missing.empty()) {
        return {};
    }
    return fail(Code::unavailable,
                "io_uring can't be used: the kernel lacks its operations " + missing +
                    "; use Linux 5.15 or newer");
}

Result<void> check_sizes(const io_uring& ring, SetupOptions options) {
    if (ring.cq.ring_entries >= options.completions) {
        return {};
    }
    return fail(Code::invalid,
                "operations_max: the kernel's completion queue ends at " +
                    std::to_string(ring.cq.ring_entries) + " entries, " +
                    std::to_string(options.completions) + " are needed");
}

Result<void> prepare(io_uring& ring, SetupOptions options) {
    MOSAIC_TRY(check_features(ring));
    MOSAIC_TRY(check_sizes(ring, options));
    MOSAIC_TRY(check_opcodes(ring));
    // A forked child must not find the queues in its memory (TRAP-09).
    const int dontfork = io_uring_ring_dontfork(&ring);
    if (dontfork < 0) {
        return fail_sys(-dontfork, "madvise(MADV_DONTFORK) of the io_uring queues");
    }
    unsigned workers[2] = {kBoundedWorkers, kUnboundedWorkers};
    const int limited = io_uring_register_iowq_max_workers(&ring, workers);
    if (limited < 0 && limited != -EINVAL) {
        return refused("io_uring_register", -limited);
    }
    return {};
}

}  // namespace

std::string explain_refusal(std::string_view call, int sys, std::string_view disabled) {
    std::string text = "io_uring can't be used: ";
    text += call;
    text += ": ";
    text += errno_text(sys);
    switch (sys) {
        case EPERM:
        case EACCES:
            if (disabled == "1" || disabled == "2") {
                text += "; kernel.io_uring_disabled is ";
                text += disabled;
                text += ": set it to 0 (sysctl kernel.io_uring_disabled=0)";
                text += disabled == "1" ? ", or add this user to kernel.io_uring_group" : "";
                return text;
            }
            return text +
                   "; a seccomp profile denies it, as container runtimes do by default: allow "
                   "io_uring_setup, io_uring_enter and io_uring_register in the profile, or run "
                   "outside the container";
        case ENOSYS:
            return text +
                   "; the kernel is older than Linux 5.15 or built without CONFIG_IO_URING, or a "
                   "seccomp profile hides it: use a newer kernel, or allow io_uring_setup, "
                   "io_uring_enter and io_uring_register in the profile";
        case ENOMEM:
            // TRAP-19
            return text +
                   "; the memory-lock limit, which this user's rings share, or the memory cgroup "
                   "is "
                   "used up: raise LimitMEMLOCK= or ulimit -l, or MemoryMax=";
        case EMFILE:
        case ENFILE:
            return text + "; raise LimitNOFILE= or ulimit -n";
        default:
            return text;
    }
}

Result<void> set_up(io_uring& ring, SetupOptions options) {
    MOSAIC_TRY(make_ring(ring, options));
    Result<void> prepared = prepare(ring, options);
    if (!prepared) {
        io_uring_queue_exit(&ring);
    }
    return prepared;
}

}  // namespace mosaic::reactor
