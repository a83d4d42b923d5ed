// Goal: the filter refuses what it says, whatever else stands in a call's arguments, and nothing
// else. Method: its program is run by the small interpreter below, as the kernel would.

#include "sandbox/seccomp.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <vector>

using mosaic::sandbox::open_program;
using mosaic::sandbox::program_file;
using mosaic::sandbox::seccomp_program;
using mosaic::sandbox::SeccompFilter;
using mosaic::sandbox::SeccompRule;
using mosaic::sandbox::session_filter;

namespace {

constexpr uint64_t kUpperBits = 0xabcd000000000000;
constexpr int kAllowed = 0;

#ifdef __x86_64__
constexpr uint32_t kOwnAbi = AUDIT_ARCH_X86_64;
constexpr uint32_t kForeignAbi = AUDIT_ARCH_I386;
#else
constexpr uint32_t kOwnAbi = AUDIT_ARCH_AARCH64;
constexpr uint32_t kForeignAbi = AUDIT_ARCH_ARM;
#endif

using Arguments = std::array<uint64_t, 6>;

seccomp_data call_of(int number, const Arguments& arguments, uint32_t abi = kOwnAbi) {
    seccomp_data data{};
    data.nr = number;
    data.arch = abi;
    for (size_t i = 0; i < arguments.size(); ++i) {
        data.args[i] = arguments[i];
    }
    return data;
}

bool jumps(const sock_filter& step, uint32_t accumulator) {
    switch (BPF_OP(step.code)) {
        case BPF_JEQ:
            return accumulator == step.k;
        case BPF_JGT:
            return accumulator > step.k;
        case BPF_JGE:
            return accumulator >= step.k;
        default:
            return (accumulator & step.k) != 0;
    }
}

// The errno that the program answers a call with; 0: allowed.
int verdict(const std::string& program, const seccomp_data& data) {
    std::vector<sock_filter> steps(program.size() / sizeof(sock_filter));
    std::memcpy(steps.data(), program.data(), program.size());
    uint32_t accumulator = 0;
    for (size_t at = 0; at < steps.size(); ++at) {
        const sock_filter& step = steps[at];
        switch (BPF_CLASS(step.code)) {
            case BPF_LD:
                REQUIRE(step.code == (BPF_LD | BPF_W | BPF_ABS));
                REQUIRE(step.k + sizeof(accumulator) <= sizeof(data));
                std::memcpy(&accumulator,
                            reinterpret_cast<const char*>(&data) + step.k,
                            sizeof(accumulator));
                break;
            case BPF_ALU:
                REQUIRE(BPF_OP(step.code) == BPF_AND);
                accumulator &= step.k;
                break;
            case BPF_JMP:
                if (BPF_OP(step.code) == BPF_JA) {
                    at += step.k;
                } else {
                    at += jumps(step, accumulator) ? step.jt : step.jf;
                }
                break;
            default:
                REQUIRE(step.code == (BPF_RET | BPF_K));
                if (step.k == SECCOMP_RET_ALLOW) {
                    return kAllowed;
                }
                REQUIRE((step.k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
                return static_cast<int>(step.k & SECCOMP_RET_DATA);
        }
    }
    FAIL("the program has no end");
    return -1;
}

std::string program_of(const SeccompFilter& filter) {
    auto program = seccomp_program(filter);
    REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().text));
    REQUIRE(program->size() % sizeof(sock_filter) == 0);
    REQUIRE(program->size() / sizeof(sock_filter) <= BPF_MAXINSNS);
    return *program;
}

}  // namespace

TEST_CASE("each rule refuses its call with its errno, whatever the other bits are") {
    for (const bool nested : {false, true}) {
        const SeccompFilter filter = session_filter(nested);
        const std::string program = program_of(filter);
        for (const SeccompRule& rule : filter.rules) {
            CAPTURE(rule.call);
            Arguments exact{};
            Arguments more{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, 0, 0};
            for (const auto& condition : rule.conditions) {
                exact[condition.argument] = condition.value;
                more[condition.argument] =
                    (more[condition.argument] & ~condition.mask) | condition.value;
            }
            CHECK(verdict(program, call_of(rule.call, exact)) == rule.answer);
            CHECK(verdict(program, call_of(rule.call, more)) == rule.answer);
            for (const auto& condition : rule.conditions) {
                Arguments without{};
                without[condition.argument] = ~condition.mask;
                CHECK(verdict(program, call_of(rule.call, without)) == kAllowed);
            }
        }
    }
}

TEST_CASE("with every bit of every argument set exactly these calls are refused") {
    // By number what Debian 12's headers don't have.
    std::map<long, int> refused = {{SYS_setns, EPERM},
                                   {SYS_clone3, ENOSYS},
                                   {SYS_move_mount, EPERM},
                                   {SYS_open_tree, EPERM},
                                   {SYS_fsopen, EPERM},
                                   {SYS_fsconfig, EPERM},
                                   {SYS_fsmount, EPERM},
                                   {SYS_fspick, EPERM},
                                   {SYS_mount_setattr, EPERM},
                                   {457, EPERM},  // statmount
                                   {458, EPERM},  // listmount
                                   {467, EPERM},  // open_tree_attr
                                   {SYS_keyctl, EPERM},
                                   {SYS_add_key, EPERM},
                                   {SYS_request_key, EPERM},
                                   {SYS_bpf, EPERM},
                                   {SYS_perf_event_open, EPERM},
                                   {SYS_userfaultfd, EPERM},
                                   {SYS_kexec_load, EPERM},
                                   {SYS_kexec_file_load, EPERM},
                                   {SYS_init_module, EPERM},
                                   {SYS_finit_module, EPERM},
                                   {SYS_delete_module, EPERM},
                                   {SYS_syslog, EPERM},
                                   {459, EPERM},  // lsm_get_self_attr
                                   {460, EPERM},  // lsm_set_self_attr
                                   {461, EPERM},  // lsm_list_modules
                                   {SYS_io_uring_setup, ENOSYS},
                                   {SYS_io_uring_enter, ENOSYS},
                                   {SYS_io_uring_register, ENOSYS},
                                   {SYS_fchmod, EPERM},
                                   {SYS_fchmodat, EPERM},
                                   {452, ENOSYS},  // fchmodat2
                                   {SYS_mknodat, EPERM},
                                   {SYS_openat, EPERM},
                                   {SYS_openat2, ENOSYS}};
#ifdef __x86_64__
    for (const long call : {SYS_chmod, SYS_mknod, SYS_creat, SYS_open}) {
        refused.emplace(call, EPERM);
    }
#endif
    for (const bool nested : {true, false}) {
        CAPTURE(nested);
        if (!nested) {
            for (const long call :
                 {SYS_clone, SYS_unshare, SYS_mount, SYS_umount2, SYS_pivot_root}) {
                refused.emplace(call, EPERM);
            }
        }
        const std::string program = program_of(session_filter(nested));
        for (int call = 0; call < 600; ++call) {
            CAPTURE(call);
            Arguments all{};
            all.fill(~uint64_t{0});
            const auto hit = refused.find(call);
            CHECK(verdict(program, call_of(call, all)) ==
                  (hit == refused.end() ? kAllowed : hit->second));
        }
    }
}

TEST_CASE("processes and namespaces of other kinds can be made") {
    const std::string program = program_of(session_filter(false));
    const uint64_t others = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_FILES;
    CHECK(verdict(program, call_of(SYS_clone, {CLONE_VM | CLONE_VFORK | others})) == kAllowed);
    CHECK(verdict(program, call_of(SYS_unshare, {others})) == kAllowed);
    CHECK(verdict(program, call_of(SYS_unshare, {others | CLONE_NEWUSER})) == EPERM);
}

TEST_CASE("calls that no rule names are allowed") {
    const SeccompFilter filter = session_filter(false);
    const std::string program = program_of(filter);
    std::set<int> named;
    for (const SeccompRule& rule : filter.rules) {
        named.insert(rule.call);
    }
    for (int call = 0; call < 600; ++call) {
        if (!named.contains(call)) {
            CAPTURE(call);
            CHECK(verdict(program, call_of(call, {})) == kAllowed);
            CHECK(verdict(program, call_of(call, {~uint64_t{0}, ~uint64_t{0}, 0, 0, 0, 0})) ==
                  kAllowed);
        }
    }
    CHECK(verdict(program, call_of(SYS_ptrace, {})) == kAllowed);
}

TEST_CASE("typing into a terminal is refused with and without bits above the request") {
    const std::string program = program_of(session_filter(false));
    for (const uint64_t request : {uint64_t{TIOCSTI}, uint64_t{TIOCLINUX}}) {
        CHECK(verdict(program, call_of(SYS_ioctl, {0, request})) == EPERM);
        CHECK(verdict(program, call_of(SYS_ioctl, {0, request | uint64_t{1} << 32})) == EPERM);
        CHECK(verdict(program, call_of(SYS_ioctl, {0, request | kUpperBits})) == EPERM);
        CHECK(verdict(program, call_of(SYS_ioctl, {0, request + 1})) == kAllowed);
    }
    CHECK(verdict(program, call_of(SYS_ioctl, {0, TIOCGWINSZ})) == kAllowed);
}

TEST_CASE("a set-user-ID bit is refused, a set-group-ID bit isn't") {
    const std::string program = program_of(session_filter(false));
    CHECK(verdict(program, call_of(SYS_fchmod, {3, 04755})) == EPERM);
    CHECK(verdict(program, call_of(SYS_fchmod, {3, 06755 | kUpperBits})) == EPERM);
    CHECK(verdict(program, call_of(SYS_fchmod, {3, 02775})) == kAllowed);
    CHECK(verdict(program, call_of(SYS_mknodat, {0, 0, S_IFREG | 04755})) == EPERM);
    CHECK(verdict(program, call_of(SYS_openat, {0, 0, O_CREAT | O_WRONLY, 04755})) == EPERM);
    CHECK(verdict(program, call_of(SYS_openat, {0, 0, O_TMPFILE | O_WRONLY, 04755})) == EPERM);
    CHECK(verdict(program, call_of(SYS_openat, {0, 0, O_CREAT | O_WRONLY, 0755})) == kAllowed);
    // A directory flag alone makes nothing, and the mode of such a call is whatever was left.
    CHECK(verdict(program, call_of(SYS_openat, {0, 0, O_DIRECTORY, 04755})) == kAllowed);
}

TEST_CASE("leases are refused, and no other fcntl") {
    const std::string program = program_of(session_filter(false));
    const std::set<int> leases = {F_SETLEASE, 1040};  // F_SETDELEG, Linux 6.19
    for (int command = 0; command < 1100; ++command) {
        CAPTURE(command);
        const auto request = static_cast<uint64_t>(command);
        const int wanted = leases.contains(command) ? EPERM : kAllowed;
        CHECK(verdict(program, call_of(SYS_fcntl, {3, request})) == wanted);
        CHECK(verdict(program, call_of(SYS_fcntl, {3, request | kUpperBits})) == wanted);
    }
}

TEST_CASE("sockets that no network namespace divides are refused, and no others") {
    const std::string program = program_of(session_filter(false));
    const std::set<int> everywhere = {AF_RDS, AF_VSOCK, AF_QIPCRTR};
    for (int family = 0; family < AF_MAX + 8; ++family) {
        CAPTURE(family);
        const auto number = static_cast<uint64_t>(family);
        const int wanted = everywhere.contains(family) ? EPERM : kAllowed;
        CHECK(verdict(program, call_of(SYS_socket, {number, SOCK_STREAM})) == wanted);
        CHECK(verdict(program, call_of(SYS_socket, {number | kUpperBits, SOCK_STREAM})) == wanted);
    }
}

TEST_CASE("the runner's limits and priorities are refused, a program's own aren't") {
    const std::string program = program_of(session_filter(false));
    for (const int call : {SYS_prlimit64,
                           SYS_sched_setaffinity,
                           SYS_sched_setattr,
                           SYS_sched_setparam,
                           SYS_sched_setscheduler}) {
        CAPTURE(call);
        CHECK(verdict(program, call_of(call, {1, 7, 8, 9})) == EPERM);
        CHECK(verdict(program, call_of(call, {1 | kUpperBits, 7, 8, 9})) == EPERM);
        CHECK(verdict(program, call_of(call, {0, 1, 1, 1})) == kAllowed);
        CHECK(verdict(program, call_of(call, {2, 1, 1, 1})) == kAllowed);
    }
    constexpr uint64_t kIoprioProcess = 1;
    constexpr uint64_t kIoprioUser = 3;
    CHECK(verdict(program, call_of(SYS_setpriority, {PRIO_PROCESS, 1, 5})) == EPERM);
    CHECK(verdict(program, call_of(SYS_setpriority, {PRIO_USER, 0, 5})) == EPERM);
    CHECK(verdict(program, call_of(SYS_setpriority, {PRIO_PROCESS, 0, 1})) == kAllowed);
    CHECK(verdict(program, call_of(SYS_setpriority, {PRIO_PGRP, 0, 1})) == kAllowed);
    CHECK(verdict(program, call_of(SYS_ioprio_set, {kIoprioProcess, 1, 5})) == EPERM);
    CHECK(verdict(program, call_of(SYS_ioprio_set, {kIoprioUser, 0, 5})) == EPERM);
    CHECK(verdict(program, call_of(SYS_ioprio_set, {kIoprioProcess, 0, 1})) == kAllowed);
}

TEST_CASE("a call by another ABI doesn't exist") {
    const std::string program = program_of(session_filter(false));
    CHECK(verdict(program, call_of(20, {}, kForeignAbi)) == ENOSYS);
#ifdef __x86_64__
    CHECK(verdict(program, call_of(0x40000000 | SYS_getpid, {})) == ENOSYS);
#endif
}

TEST_CASE("sandboxes inside keep user namespaces and mounts, and nothing else more") {
    const std::string program = program_of(session_filter(true));
    CHECK(verdict(program, call_of(SYS_unshare, {~uint64_t{0}})) == kAllowed);
    CHECK(verdict(program, call_of(SYS_clone, {~uint64_t{0}})) == kAllowed);
    for (const int call : {SYS_mount, SYS_umount2, SYS_pivot_root}) {
        CHECK(verdict(program, call_of(call, {})) == kAllowed);
    }
    const SeccompFilter plain = session_filter(false);
    CHECK(plain.rules.size() == session_filter(true).rules.size() + 5);
}

TEST_CASE("the program's file is read from its start by each launch, and can't be changed") {
    const std::string program = program_of(session_filter(false));
    const auto file = program_file(program);
    REQUIRE(file.has_value());
    for (int launch = 0; launch < 3; ++launch) {
        const auto opened = open_program(file->get());
        REQUIRE(opened.has_value());
        std::string text(program.size() + 1, '\0');
        CHECK(::read(opened->get(), text.data(), text.size()) ==
              static_cast<ssize_t>(program.size()));
        text.resize(program.size());
        CHECK(text == program);
        CHECK((::fcntl(opened->get(), F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(::write(opened->get(), "x", 1) == -1);
    }
    CHECK(::pwrite(file->get(), "x", 1, 0) == -1);
    CHECK(errno == EPERM);
    const auto size = static_cast<off_t>(program.size());
    for (const off_t other : {off_t{0}, size - 8, size + 8}) {
        CHECK(::ftruncate(file->get(), other) == -1);
        CHECK(errno == EPERM);
    }
}
