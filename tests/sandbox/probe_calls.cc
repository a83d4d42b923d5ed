// System calls for the probe table, one by one: what a shell can't do by itself. It lies in a
// session's workspace and prints for each command the errno names of what was tried, or "ok".
// Static, and without anything of the product: it must not share its faults.
//
//   probe_calls COMMAND [ARGUMENT...]

#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kFchmodat2 = 452;
constexpr long kUpperBit = 1L << 32;

// "ok" for anything that isn't an error.
std::string name_of(long result) {
    return result >= 0 ? "ok" : strerrorname_np(errno);
}

void say(const char* what, long result) {
    std::printf("%s %s\n", what, name_of(result).c_str());
    std::fflush(stdout);
}

// A child that was made where none may be must not go on in this program.
long no_child(long result) {
    if (result == 0) {
        ::_exit(0);
    }
    return result;
}

void namespaces() {
    std::array<long, 11> clone_arguments{};  // struct clone_args
    clone_arguments[4] = SIGCHLD;
    say("clone3", no_child(::syscall(SYS_clone3, clone_arguments.data(), sizeof clone_arguments)));
    const long flags = CLONE_NEWUSER | SIGCHLD;
    say("clone", no_child(::syscall(SYS_clone, flags, 0, 0, 0, 0)));
    say("clone, a bit above", no_child(::syscall(SYS_clone, flags | kUpperBit, 0, 0, 0, 0)));
    say("clone, with more", no_child(::syscall(SYS_clone, flags | CLONE_NEWNS, 0, 0, 0, 0)));
    say("unshare", ::syscall(SYS_unshare, CLONE_NEWUSER));
    say("unshare, a bit above", ::syscall(SYS_unshare, CLONE_NEWUSER | kUpperBit));
    const int own = ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    say("setns", ::syscall(SYS_setns, own, CLONE_NEWUSER));
}

struct Call {
    const char* name;
    long number;
};

// With arguments that are wrong for each of them: what answers first is the filter, or nothing.
void try_all(const std::vector<Call>& calls) {
    for (const Call& call : calls) {
        say(call.name, ::syscall(call.number, -1, -1, -1, -1, -1, -1));
    }
}

void mounts() {
    try_all({{"mount", SYS_mount},
             {"umount2", SYS_umount2},
             {"pivot_root", SYS_pivot_root},
             {"move_mount", SYS_move_mount},
             {"open_tree", SYS_open_tree},
             {"fsopen", SYS_fsopen},
             {"fsconfig", SYS_fsconfig},
             {"fsmount", SYS_fsmount},
             {"fspick", SYS_fspick},
             {"mount_setattr", SYS_mount_setattr},
             {"open_tree_attr", 467},
             {"statmount", 457},
             {"listmount", 458}});
}

void kernel() {
    try_all({{"bpf", SYS_bpf},
             {"perf_event_open", SYS_perf_event_open},
             {"userfaultfd", SYS_userfaultfd},
             {"kexec_load", SYS_kexec_load},
             {"kexec_file_load", SYS_kexec_file_load},
             {"init_module", SYS_init_module},
             {"finit_module", SYS_finit_module},
             {"delete_module", SYS_delete_module},
             {"syslog", SYS_syslog}});
}

void keys() {
    try_all({{"keyctl", SYS_keyctl}, {"add_key", SYS_add_key}, {"request_key", SYS_request_key}});
}

// By the call of the kernel, which a program may make without any library.
void read_key(const char* id) {
    std::array<char, 64> value{};
    say("keyctl", ::syscall(SYS_keyctl, 11L /* KEYCTL_READ */, std::atol(id), value.data(), 64L));
}

// On x86 another ABI is one instruction away.
void foreign() {
#ifdef __x86_64__
    long result = 20;  // getpid of i386
    asm volatile("int $0x80" : "+a"(result) : : "memory");
    std::printf("i386 %s\n", result > 0 ? "ok" : strerrorname_np(static_cast<int>(-result)));
    std::fflush(stdout);
    say("x32", ::syscall(0x40000000L | SYS_getpid));
#else
    std::printf("i386 ENOSYS\nx32 ENOSYS\n");
#endif
}

void type_into(const char* name, int terminal) {
    const std::string prefix = name;
    char key = 'x';
    say((prefix + " TIOCSTI").c_str(), ::syscall(SYS_ioctl, terminal, long{TIOCSTI}, &key));
    say((prefix + " TIOCSTI, a bit above").c_str(),
        ::syscall(SYS_ioctl, terminal, TIOCSTI | kUpperBit, &key));
    say((prefix + " TIOCLINUX").c_str(), ::syscall(SYS_ioctl, terminal, long{TIOCLINUX}, &key));
    winsize size{};
    say((prefix + " size").c_str(), ::ioctl(terminal, TIOCGWINSZ, &size));
}

int open_terminal(int more) {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
        return -1;
    }
    return ::open(::ptsname(master), O_RDWR | O_CLOEXEC | more);
}

// A real terminal, first as a stranger's and then as the controlling one of this process.
void terminal() {
    type_into("a terminal's", open_terminal(O_NOCTTY));
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGHUP, SIG_IGN);
        ::setsid();
        const int own = open_terminal(0);
        say("controlling", ::ioctl(own, TIOCSCTTY, 0));
        type_into("the own terminal's", own);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
}

// Every way to a file with the set-user-ID bit, in an empty directory of its own.
void setuid_files(const char* directory) {
    if (::mkdir(directory, 0700) != 0 || ::chdir(directory) != 0) {
        say("directory", -1);
        return;
    }
    const int file = ::open("plain", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    say("chmod", ::syscall(SYS_chmod, "plain", 04755L));
    say("chmod, a bit above", ::syscall(SYS_chmod, "plain", 04755L | kUpperBit));
    say("fchmod", ::syscall(SYS_fchmod, file, 04755L));
    say("fchmodat", ::syscall(SYS_fchmodat, AT_FDCWD, "plain", 06755L));
    say("fchmodat2", ::syscall(kFchmodat2, AT_FDCWD, "plain", 04755L, 0L));
    say("mknod", ::syscall(SYS_mknod, "by-mknod", S_IFREG | 04755L, 0L));
    say("mknodat", ::syscall(SYS_mknodat, AT_FDCWD, "by-mknodat", S_IFREG | 04755L, 0L));
    say("creat", ::syscall(SYS_creat, "by-creat", 04755L));
    say("open", ::syscall(SYS_open, "by-open", long{O_RDWR | O_CREAT}, 04755L));
    say("openat", ::syscall(SYS_openat, AT_FDCWD, "by-openat", long{O_RDWR | O_CREAT}, 04755L));
    say("a nameless file", ::syscall(SYS_openat, AT_FDCWD, ".", long{O_RDWR | O_TMPFILE}, 04755L));
    const std::array<unsigned long, 3> how = {O_RDWR | O_CREAT, 04755, 0};  // struct open_how
    say("openat2", ::syscall(SYS_openat2, AT_FDCWD, "by-openat2", how.data(), sizeof how));
    // What must go on working beside all that.
    say("chmod 0755", ::chmod("plain", 0755));
    say("chmod 2755", ::chmod("plain", 02755));
    say("open 0644", ::open("other", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    say("open, a mode unused", ::syscall(SYS_open, "other", long{O_RDWR}, 04755L));
}

void report_attach(const char* name, long result, pid_t target) {
    say(name, result);
    if (result == 0) {
        ::waitpid(target, nullptr, __WALL);
        ::ptrace(PTRACE_DETACH, target, nullptr, nullptr);
    }
}

// What one process may do to another, the session's runner above all.
void reach(pid_t target) {
    report_attach("attach", ::ptrace(PTRACE_ATTACH, target, nullptr, nullptr), target);
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, target, 0));
    say("pidfd_getfd", ::syscall(SYS_pidfd_getfd, pidfd, 0, 0));
    char byte = 0;
    iovec here{&byte, 1};
    // Whatever lies there: whoever may look gets EFAULT, not EPERM.
    iovec there{reinterpret_cast<void*>(0x10000UL), 1};
    say("read", ::process_vm_readv(target, &here, 1, &there, 1, 0));
    say("write", ::process_vm_writev(target, &here, 1, &there, 1, 0));
    const std::string proc = "/proc/" + std::to_string(target);
    // To read is enough, and /proc is read-only.
    say("mem", ::open((proc + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    say("environ", ::open((proc + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> link{};
    say("exe", ::readlink((proc + "/exe").c_str(), link.data(), link.size()));
    say("root", ::open((proc + "/root").c_str(), O_PATH | O_CLOEXEC));
    say("fd", ::open((proc + "/fd/0").c_str(), O_PATH | O_CLOEXEC));
}

// A debugger's and a sanitizer's work: to trace one's own child.
void trace_child() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::raise(SIGSTOP);
        ::_exit(7);
    }
    int status = 0;
    const bool stopped = ::waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
    const bool ended = ::waitpid(child, &status, 0) == child && WIFEXITED(status);
    std::puts(stopped && ended && WEXITSTATUS(status) == 7 ? "ok" : "failed");
}

int abstract_socket(const char* name, sockaddr_un& address, socklen_t& size) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name, std::strlen(name));
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name));
    return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

void connect_abstract(const char* name) {
    sockaddr_un address{};
    socklen_t size = 0;
    const int fd = abstract_socket(name, address, size);
    say("connect", ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size));
}

bool listens(const char* name) {
    sockaddr_un address{};
    socklen_t size = 0;
    const int fd = abstract_socket(name, address, size);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
        ::listen(fd, 8) == 0) {
        return true;
    }
    say("listen", -1);
    return false;
}

// Two processes of one session.
void meet(const char* name) {
    if (!listens(name)) {
        return;
    }
    const pid_t child = ::fork();
    if (child == 0) {
        connect_abstract(name);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
}

// Listens, says so by making a file, and stays until it is killed.
void listen_abstract(const char* name, const char* ready) {
    if (!listens(name)) {
        return;
    }
    ::open(ready, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (;;) {
        ::pause();
    }
}

// On a file of one's own, which is all that the kernel asks for.
void leases(const char* file) {
    const int fd = ::open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    say("lease", ::fcntl(fd, F_SETLEASE, F_WRLCK));
    say("lease, a bit above", ::syscall(SYS_fcntl, fd, F_SETLEASE | kUpperBit, long{F_WRLCK}));
    say("delegation", ::syscall(SYS_fcntl, fd, 1040L, 0L));
    ::unlink(file);
}

void sockets() {
    say("rds", ::socket(AF_RDS, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    say("vsock", ::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
    say("qipcrtr", ::socket(AF_QIPCRTR, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

// Sets what another process has anyway.
void settle(pid_t target) {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    say("prlimit", ::syscall(SYS_prlimit64, target, long{RLIMIT_NOFILE}, &files, nullptr));
    cpu_set_t processors;
    CPU_ZERO(&processors);
    ::sched_getaffinity(0, sizeof processors, &processors);
    say("sched_setaffinity", ::sched_setaffinity(target, sizeof processors, &processors));
    sched_param usual{};
    say("sched_setparam", ::sched_setparam(target, &usual));
    say("sched_setscheduler", ::sched_setscheduler(target, SCHED_OTHER, &usual));
    const std::array<uint32_t, 12> attributes = {sizeof attributes};  // struct sched_attr
    say("sched_setattr", ::syscall(SYS_sched_setattr, target, attributes.data(), 0L));
    say("setpriority", ::setpriority(PRIO_PROCESS, static_cast<id_t>(target), 0));
    say("setpriority of the user", ::setpriority(PRIO_USER, ::getuid(), 0));
    say("ioprio_set", ::syscall(SYS_ioprio_set, 1L, target, 0L));
    say("ioprio_set of the user", ::syscall(SYS_ioprio_set, 3L, long{::getuid()}, 0L));
}

void semaphore() {
    sem_t* made = ::sem_open("/probe", O_CREAT | O_EXCL, 0600, 1);
    say("semaphore", made == SEM_FAILED ? -1 : ::sem_wait(made));
    ::sem_unlink("/probe");
}

void limits() {
    const std::array<std::pair<const char*, __rlimit_resource_t>, 7> all = {
        {{"processes", RLIMIT_NPROC},
         {"files", RLIMIT_NOFILE},
         {"core", RLIMIT_CORE},
         {"locked memory", RLIMIT_MEMLOCK},
         {"signals", RLIMIT_SIGPENDING},
         {"address space", RLIMIT_AS},
         {"file size", RLIMIT_FSIZE}}};
    for (const auto& [name, resource] : all) {
        rlimit limit{};
        ::getrlimit(resource, &limit);
        if (limit.rlim_max == RLIM_INFINITY) {
            std::printf("%s unlimited\n", name);
        } else {
            std::printf("%s %lu\n", name, static_cast<unsigned long>(limit.rlim_max));
        }
    }
}

// Forks until it can't, or `most` times; the children stay, and a line of standard input ends them.
void bomb(int most) {
    int made = 0;
    pid_t child = 0;
    while (made < most && (child = ::fork()) > 0) {
        ++made;
    }
    if (child == 0 && made < most) {
        ::pause();
        ::_exit(0);
    }
    std::printf("%s after %d\n", child < 0 ? strerrorname_np(errno) : "no end", made);
    std::fflush(stdout);
}

int run(const std::string& command, char** arguments) {
    if (command == "namespaces") {
        namespaces();
    } else if (command == "mounts") {
        mounts();
    } else if (command == "keys") {
        keys();
    } else if (command == "kernel") {
        kernel();
    } else if (command == "modules") {
        try_all({{"get", 459}, {"set", 460}, {"list", 461}});
    } else if (command == "rings") {
        try_all({{"setup", SYS_io_uring_setup},
                 {"enter", SYS_io_uring_enter},
                 {"register", SYS_io_uring_register}});
    } else if (command == "foreign") {
        foreign();
    } else if (command == "terminal") {
        terminal();
    } else if (command == "trace-child") {
        trace_child();
    } else if (command == "semaphore") {
        semaphore();
    } else if (command == "limits") {
        limits();
    } else if (command == "sockets") {
        sockets();
    } else if (arguments[0] == nullptr) {
        return 2;
    } else if (command == "setuid") {
        setuid_files(arguments[0]);
    } else if (command == "leases") {
        leases(arguments[0]);
    } else if (command == "settle") {
        settle(std::atoi(arguments[0]));
    } else if (command == "read-key") {
        read_key(arguments[0]);
    } else if (command == "reach") {
        reach(std::atoi(arguments[0]));
    } else if (command == "signal") {
        // Signal 0 asks whether another could be sent, and ends nobody.
        say("signal", ::kill(std::atoi(arguments[0]), 0));
    } else if (command == "queue") {
        say("queue", ::mq_open(arguments[0], O_RDWR | O_CLOEXEC));
    } else if (command == "bomb") {
        bomb(std::atoi(arguments[0]));
    } else if (command == "meet") {
        meet(arguments[0]);
    } else if (command == "connect") {
        connect_abstract(arguments[0]);
    } else if (command == "listen" && arguments[1] != nullptr) {
        listen_abstract(arguments[0], arguments[1]);
    } else {
        return 2;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return argc < 2 ? 2 : run(argv[1], argv + 2);
}
