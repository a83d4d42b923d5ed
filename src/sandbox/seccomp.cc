#include "sandbox/seccomp.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace mosaic::sandbox {
namespace {

// Younger than Debian 12's headers and libseccomp. Since 424 a number is the same on every machine.
constexpr int kFchmodat2 = 452;
constexpr int kStatmount = 457;
constexpr int kListmount = 458;
constexpr int kLsmGetSelfAttr = 459;
constexpr int kLsmSetSelfAttr = 460;
constexpr int kLsmListModules = 461;
constexpr int kOpenTreeAttr = 467;
constexpr uint64_t kSetDelegation = 1040;  // F_SETDELEG of fcntl(2), Linux 6.19

// The kernel looks at the lower half of an int alone, so a comparison of all 64 bits would let the
// same request with a bit above them pass.
constexpr uint64_t kIntMask = 0xffffffff;
// The kernel's own bit of O_TMPFILE, without O_DIRECTORY.
constexpr uint64_t kTmpfileBit = O_TMPFILE & ~O_DIRECTORY;

constexpr std::string_view kNamespaces = "user namespaces";
constexpr std::string_view kMounts = "mounts";
constexpr std::string_view kKeys = "keyrings";
constexpr std::string_view kKernel = "reaching into the kernel";
constexpr std::string_view kLsm = "security modules";
constexpr std::string_view kRings = "io_uring";
constexpr std::string_view kTerminals = "typing into terminals";
constexpr std::string_view kSetuid = "setuid files";
constexpr std::string_view kLeases = "leases";
constexpr std::string_view kSockets = "sockets of the whole machine";
constexpr std::string_view kRunner = "settings of the runner";

using Rules = std::vector<SeccompRule>;

void refuse(Rules& out, std::string_view group, int answer, std::initializer_list<int> calls) {
    for (const int call : calls) {
        out.push_back({group, call, answer, {}});
    }
}

SeccompCondition has_bit(unsigned argument, uint64_t bit) {
    return {argument, bit, bit};
}

void add_namespaces(Rules& out, bool nested) {
    if (!nested) {
        // clone(2)'s flags are argument 0 wherever this product runs (x86_64, arm64, riscv64).
        out.push_back({kNamespaces, SYS_clone, EPERM, {has_bit(0, CLONE_NEWUSER)}});
        out.push_back({kNamespaces, SYS_unshare, EPERM, {has_bit(0, CLONE_NEWUSER)}});
        refuse(out, kMounts, EPERM, {SYS_mount, SYS_umount2, SYS_pivot_root});
    }
    // Its flags lie in memory, where no filter can look. EPERM would abort programs that then try
    // clone; ENOSYS makes them try it.
    refuse(out, kNamespaces, ENOSYS, {SYS_clone3});
    refuse(out, kNamespaces, EPERM, {SYS_setns});
    refuse(out,
           kMounts,
           EPERM,
           {SYS_move_mount,
            SYS_open_tree,
            SYS_fsopen,
            SYS_fsconfig,
            SYS_fsmount,
            SYS_fspick,
            SYS_mount_setattr,
            kOpenTreeAttr,
            kStatmount,
            kListmount});
}

// A set-user-ID file in the workspace would let any other user of the host act as this one. The
// set-group-ID bit stays: `git init --shared` needs it.
void add_setuid(Rules& out) {
    const auto mode_in = [&](int call, unsigned argument) {
        out.push_back({kSetuid, call, EPERM, {has_bit(argument, S_ISUID)}});
    };
    mode_in(SYS_fchmod, 1);
    mode_in(SYS_fchmodat, 2);
    mode_in(SYS_mknodat, 2);
#ifdef SYS_chmod
    mode_in(SYS_chmod, 1);
    mode_in(SYS_mknod, 1);
    mode_in(SYS_creat, 1);
#endif
    // Making a file with that mode is as good as changing it. Without these flags the mode is no
    // argument, and the register holds anything.
    const auto opens = [&](int call, unsigned flags) {
        for (const uint64_t makes : {static_cast<uint64_t>(O_CREAT), kTmpfileBit}) {
            out.push_back(
                {kSetuid, call, EPERM, {has_bit(flags, makes), has_bit(flags + 1, S_ISUID)}});
        }
    };
    opens(SYS_openat, 2);
#ifdef SYS_open
    opens(SYS_open, 1);
#endif
    // The younger forms of both: programs fall back to the ones above. (openat2's mode lies in
    // memory.)
    refuse(out, kSetuid, ENOSYS, {kFchmodat2, SYS_openat2});
}

SeccompCondition is(unsigned argument, uint64_t value) {
    return {argument, kIntMask, value};
}

// Whoever opens a file on which another holds a lease waits for him, 45 s by default, and a file's
// owner may take one through a read-only mount. All sessions are the owner of the staged tree, and
// with it of the adapter that another session's turn opens first.
void add_leases(Rules& out) {
    out.push_back({kLeases, SYS_fcntl, EPERM, {is(1, F_SETLEASE)}});
    out.push_back({kLeases, SYS_fcntl, EPERM, {is(1, kSetDelegation)}});
}

// Families whose sockets meet across the whole machine, and across virtual machines, from whatever
// network namespace.
void add_sockets(Rules& out) {
    for (const int family : {AF_RDS, AF_VSOCK, AF_QIPCRTR}) {
        out.push_back({kSockets, SYS_socket, EPERM, {is(0, static_cast<uint64_t>(family))}});
    }
}

// These ask for the same user id alone, whatever keeps signals and tracing from the runner. With a
// limit of processor time, memory or descriptors a turn would end it. It is pid 1 to all of its
// session, and sets its own limits as pid 0, as libraries do.
void add_runner(Rules& out) {
    constexpr uint64_t kRunnerPid = 1;
    for (const int call : {SYS_prlimit64,
                           SYS_sched_setaffinity,
                           SYS_sched_setattr,
                           SYS_sched_setparam,
                           SYS_sched_setscheduler}) {
        out.push_back({kRunner, call, EPERM, {is(0, kRunnerPid)}});
    }
    // Its process, its group, or all that the user has.
    constexpr uint64_t kIoprioUser = 3;  // IOPRIO_WHO_USER, which no header of glibc's has
    out.push_back({kRunner, SYS_setpriority, EPERM, {is(1, kRunnerPid)}});
    out.push_back({kRunner, SYS_setpriority, EPERM, {is(0, PRIO_USER)}});
    out.push_back({kRunner, SYS_ioprio_set, EPERM, {is(1, kRunnerPid)}});
    out.push_back({kRunner, SYS_ioprio_set, EPERM, {is(0, kIoprioUser)}});
}

struct Release {
    void operator()(void* context) const { ::seccomp_release(context); }
};

using Context = std::unique_ptr<void, Release>;

tl::unexpected<Error> fault(const char* what, int negative_errno) {
    return fail_sys(-negative_errno, std::string("the system call filter: ") + what);
}

Result<void> add_rule(void* context, const SeccompRule& rule) {
    std::vector<scmp_arg_cmp> conditions;
    for (const SeccompCondition& condition : rule.conditions) {
        conditions.push_back(
            {condition.argument, SCMP_CMP_MASKED_EQ, condition.mask, condition.value});
    }
    const int added = ::seccomp_rule_add_array(context,
                                               SCMP_ACT_ERRNO(static_cast<uint16_t>(rule.answer)),
                                               rule.call,
                                               static_cast<unsigned>(conditions.size()),
                                               conditions.data());
    if (added != 0) {
        return fault(("call " + std::to_string(rule.call)).c_str(), added);
    }
    return {};
}

Result<std::string> read_all(int fd) {
    struct stat facts {};

    if (::fstat(fd, &facts) != 0) {
        return fail_sys(errno, "fstat");
    }
    std::string text(static_cast<size_t>(facts.st_size), '\0');
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    if (n != static_cast<ssize_t>(text.size())) {
        return fail_sys(n < 0 ? errno : EIO, "the system call filter");
    }
    return text;
}

}  // namespace

SeccompFilter session_filter(bool nested) {
    SeccompFilter out;
    Rules& rules = out.rules;
    add_namespaces(rules, nested);
    refuse(rules, kKeys, EPERM, {SYS_keyctl, SYS_add_key, SYS_request_key});
    refuse(rules,
           kKernel,
           EPERM,
           {SYS_bpf,
            SYS_perf_event_open,
            SYS_userfaultfd,
            SYS_kexec_load,
            SYS_kexec_file_load,
            SYS_init_module,
            SYS_finit_module,
            SYS_delete_module,
            SYS_syslog});
    refuse(rules, kLsm, EPERM, {kLsmGetSelfAttr, kLsmSetSelfAttr, kLsmListModules});
    refuse(rules, kRings, ENOSYS, {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register});
    rules.push_back({kTerminals, SYS_ioctl, EPERM, {is(1, TIOCSTI)}});
    rules.push_back({kTerminals, SYS_ioctl, EPERM, {is(1, TIOCLINUX)}});
    add_setuid(rules);
    add_leases(rules);
    add_sockets(rules);
    add_runner(rules);
    return out;
}

Result<std::string> seccomp_program(const SeccompFilter& filter) {
    const Context context(::seccomp_init(SCMP_ACT_ALLOW));
    if (!context) {
        return fault("seccomp_init", -ENOMEM);
    }
    const uint32_t foreign = filter.foreign_refused ? SCMP_ACT_ERRNO(ENOSYS) : SCMP_ACT_ALLOW;
    if (const int set = ::seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, foreign);
        set != 0) {
        return fault("foreign calls", set);
    }
    // A binary search instead of a chain: the kernel runs the program once for each number there is
    // when it loads it, to find out which calls need no look any more.
    if (const int set = ::seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2); set != 0) {
        return fault("optimisation", set);
    }
    for (const SeccompRule& rule : filter.rules) {
        MOSAIC_TRY(add_rule(context.get(), rule));
    }
    const UniqueFd file(::memfd_create("filter", MFD_CLOEXEC));
    if (!file.valid()) {
        return fail_sys(errno, "memfd_create");
    }
    if (const int exported = ::seccomp_export_bpf(context.get(), file.get()); exported != 0) {
        return fault("export", exported);
    }
    return read_all(file.get());
}

Result<UniqueFd> program_file(std::string_view program) {
    UniqueFd file(::memfd_create("filter", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file.valid()) {
        return fail_sys(errno, "memfd_create");
    }
    const ssize_t n = ::write(file.get(), program.data(), program.size());
    if (n != static_cast<ssize_t>(program.size())) {
        return fail_sys(n < 0 ? errno : EIO, "the system call filter");
    }
    // Every launch reads the same file, and a bubblewrap that could write it would write for all.
    if (::fcntl(file.get(),
                F_ADD_SEALS,
                F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        return fail_sys(errno, "the system call filter's seals");
    }
    return file;
}

Result<UniqueFd> open_program(int file) {
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
        return fail_sys(errno, "the system call filter: " + path);
    }
    return fd;
}

}  // namespace mosaic::sandbox
