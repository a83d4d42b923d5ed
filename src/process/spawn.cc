#include "process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/assert.h"
#include "process/raw_syscall.h"
#include "process/spawn_child.h"

namespace mosaic::process {
namespace {

// The child's frames are a few hundred bytes, without sanitizers even at -O0 below 4 KiB.
constexpr size_t kStackBytes = size_t{64} * 1024;
constexpr size_t kGuardBytes = size_t{64} * 1024;  // a multiple of every page size

// Set once this process has an empty session keyring of its own.
bool own_keyring_joined = false;

bool has_nul(const std::string& text) {
    return text.find('\0') != std::string::npos;
}

std::string_view describe(SpawnStep step) {
    switch (step) {
        case SpawnStep::parent_gone:
            return "the parent has died";
        case SpawnStep::control_group:
            return "entering its control group";
        case SpawnStep::session:
            return "setsid";
        case SpawnStep::keyring:
            return "a session keyring of its own";
        case SpawnStep::directory:
            return "chdir";
        case SpawnStep::null_device:
            return "/dev/null";
        case SpawnStep::descriptors:
            return "placing its descriptors";
        case SpawnStep::terminal:
            return "TIOCSCTTY";
        case SpawnStep::no_new_privileges:
            return "PR_SET_NO_NEW_PRIVS";
        case SpawnStep::landlock:
            return "landlock_restrict_self";
        case SpawnStep::parent_death:
            return "PR_SET_PDEATHSIG";
        case SpawnStep::exec:
            return "execve";
    }
    return "?";
}

Result<void> check_spec(const SpawnSpec& spec) {
    const std::string what = "spawn " + spec.path + ": ";
    if (spec.path.empty() || spec.path[0] != '/' || has_nul(spec.path)) {
        return fail(Code::invalid, what + "the program must be an absolute path");
    }
    if (spec.argv.empty()) {
        return fail(Code::invalid, what + "argv must name the program");
    }
    if (std::any_of(spec.argv.begin(), spec.argv.end(), has_nul) ||
        std::any_of(spec.env.begin(), spec.env.end(), has_nul) || has_nul(spec.directory)) {
        return fail(Code::invalid, what + "an argument or variable holds a NUL byte");
    }
    std::vector<int> targets;
    for (const auto& [source, target] : spec.descriptors) {
        if (source < 0 || target < 0) {
            return fail(Code::invalid, what + "a descriptor is negative");
        }
        targets.push_back(target);
    }
    std::sort(targets.begin(), targets.end());
    if (std::adjacent_find(targets.begin(), targets.end()) != targets.end()) {
        return fail(Code::invalid, what + "two descriptors have the same number in the child");
    }
    return {};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

// The numbers between 3 and the highest target that are no target, as [first, last] pairs.
std::vector<int> gaps_between(std::vector<int> targets) {
    std::sort(targets.begin(), targets.end());
    std::vector<int> gaps;
    int next = 3;
    for (const int target : targets) {
        if (target > next) {
            gaps.push_back(next);
            gaps.push_back(target - 1);
        }
        next = std::max(next, target + 1);
    }
    return gaps;
}

// Writes the score of a process that has exec'd. It is a hint to the kernel's killer: not having it
// is no reason to lose the program, and a process that has ended needs none.
void write_oom_score(pid_t pid, int score) {
    const std::string path = "/proc/" + std::to_string(pid) + "/oom_score_adj";
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.valid()) {
        return;
    }
    const std::string text = std::to_string(score);
    if (::write(file.get(), text.data(), text.size()) < 0) {
        return;
    }
}

}  // namespace

struct Spawned::State {
    std::string path;
    std::string directory;
    std::vector<std::string> argv;
    std::vector<std::string> env;
    std::vector<char*> argv_pointers;
    std::vector<char*> env_pointers;
    std::vector<int> sources;
    std::vector<int> targets;
    std::vector<int> duplicates;
    std::vector<int> gaps;
    SpawnPlan plan;
    void* mapping = MAP_FAILED;

    pid_t pid = 0;
    int control_group_fd = -1;
    int oom_score_adj = 0;
    UniqueFd pidfd;
    UniqueFd result;
    bool started = false;   // a child exists that may still use this memory
    bool settled = false;   // the pipe has told how the exec went
    bool finished = false;  // end of file: the child uses nothing of this any more
    int error = 0;          // errno of what failed, once settled

    ~State() {
        if (started) {
            wait_finished();
        }
        if (mapping != MAP_FAILED) {
            ::munmap(mapping, kGuardBytes + kStackBytes);
        }
    }

    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    // Reads what the pipe has. Not being ready yet is no change.
    void read_result() {
        while (!finished) {
            int value = 0;
            const ssize_t got = ::read(result.get(), &value, sizeof(value));
            if (got == static_cast<ssize_t>(sizeof(value))) {
                settled = true;
                error = value;
            } else if (got == 0) {
                settled = true;
                finished = true;
            } else if (errno != EINTR) {
                MOSAIC_ASSERT(errno == EAGAIN);
                return;
            }
        }
    }

    void wait_readable() {
        pollfd wait{result.get(), POLLIN, 0};
        ::poll(&wait, 1, -1);
    }

    void wait_finished() {
        for (read_result(); !finished; read_result()) {
            wait_readable();
        }
    }

    void prepare(const SpawnSpec& spec) {
        path = spec.path;
        directory = spec.directory;
        argv = spec.argv;
        env = spec.env;
        argv_pointers = pointers_to(argv);
        env_pointers = pointers_to(env);
        for (const auto& [source, target] : spec.descriptors) {
            sources.push_back(source);
            targets.push_back(target);
        }
        duplicates.resize(sources.size());
        gaps = gaps_between(targets);
        oom_score_adj = spec.oom_score_adj;

        plan.path = path.c_str();
        plan.directory = directory.empty() ? nullptr : directory.c_str();
        plan.argv = argv_pointers.data();
        plan.envp = env_pointers.data();
        plan.sources = sources.data();
        plan.targets = targets.data();
        plan.duplicates = duplicates.data();
        plan.count = static_cast<int>(sources.size());
        plan.gaps = gaps.data();
        plan.gap_count = static_cast<int>(gaps.size() / 2);
        for (int i = 0; i < 3; ++i) {
            plan.null_wanted[i] = std::find(targets.begin(), targets.end(), i) == targets.end();
        }
        for (const int target : targets) {
            plan.highest = std::max(plan.highest, target);
        }
        plan.parent = ::getpid();
        plan.landlock_fd = spec.landlock_scope_fd;
        plan.until_exec_fd = spec.until_exec_fd;
        control_group_fd = spec.control_group_fd;
        plan.new_session = spec.new_session;
        plan.controlling_terminal = spec.controlling_terminal;
        plan.new_keyring = spec.new_keyring;
        plan.keyring_optional = own_keyring_joined;
        plan.parent_death_kill = spec.parent_death_kill;
    }

    Result<void> make_stack() {
        mapping = ::mmap(nullptr,
                         kGuardBytes + kStackBytes,
                         PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE,
                         -1,
                         0);
        if (mapping == MAP_FAILED) {
            return fail_sys(errno, "spawn " + path + ": memory for the child's stack");
        }
        if (::mprotect(stack_base(), kStackBytes, PROT_READ | PROT_WRITE) != 0) {
            return fail_sys(errno, "spawn " + path + ": memory for the child's stack");
        }
        return {};
    }

    [[nodiscard]] void* stack_base() const { return static_cast<char*>(mapping) + kGuardBytes; }

    // A child that is made in the wanted group, or -1: there is none, or it doesn't work here.
    [[nodiscard]] pid_t clone_into_group(int* child_pidfd) {
        if (control_group_fd < 0) {
            return -1;
        }
        clone_args arguments{};
        arguments.flags = CLONE_VM | CLONE_PIDFD | CLONE_INTO_CGROUP;
        arguments.pidfd = reinterpret_cast<uintptr_t>(child_pidfd);
        arguments.exit_signal = SIGCHLD;
        arguments.stack = reinterpret_cast<uintptr_t>(stack_base());
        arguments.stack_size = kStackBytes;
        arguments.cgroup = static_cast<unsigned>(control_group_fd);
        const long child = raw_clone3(&arguments, sizeof(arguments), run_spawn_child, &plan);
        return child > 0 ? static_cast<pid_t>(child) : -1;
    }

    // clone(2) with every signal blocked, also the two that libc keeps for itself: a handler that
    // ran in the child would run in our memory.
    Result<void> start() {
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
            return fail_sys(errno, "spawn " + path + ": pipe");
        }
        result.reset(ends[0]);
        const UniqueFd write_end(ends[1]);
        plan.result_fd = write_end.get();

        const uint64_t all = ~uint64_t{0};
        uint64_t before = 0;
        int child_pidfd = -1;
        void* top = static_cast<char*>(stack_base()) + kStackBytes;
        raw_syscall(SYS_rt_sigprocmask,
                    SIG_SETMASK,
                    reinterpret_cast<intptr_t>(&all),
                    reinterpret_cast<intptr_t>(&before),
                    kKernelSigsetBytes);
        pid_t child = clone_into_group(&child_pidfd);
        if (child < 0) {
            plan.control_group_fd = control_group_fd;
            child = ::clone(
                run_spawn_child, top, CLONE_VM | CLONE_PIDFD | SIGCHLD, &plan, &child_pidfd);
        }
        const int error_of_clone = errno;
        raw_syscall(SYS_rt_sigprocmask,
                    SIG_SETMASK,
                    reinterpret_cast<intptr_t>(&before),
                    0,
                    kKernelSigsetBytes);
        if (child < 0) {
            return fail_sys(error_of_clone, "spawn " + path + ": clone");
        }
        pid = child;
        pidfd.reset(child_pidfd);
        started = true;
        return {};
    }
};

Spawned::Spawned(State* state) : state_(state) {}

Spawned::Spawned(Spawned&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

Spawned& Spawned::operator=(Spawned&& other) noexcept {
    if (this != &other) {
        delete std::exchange(state_, std::exchange(other.state_, nullptr));
    }
    return *this;
}

Spawned::~Spawned() {
    delete state_;
}

pid_t Spawned::pid() const {
    return state_->pid;
}

int Spawned::pidfd() const {
    return state_->pidfd.get();
}

UniqueFd Spawned::take_pidfd() {
    return std::move(state_->pidfd);
}

int Spawned::exec_result() const {
    return state_->result.get();
}

Result<void> Spawned::wait_exec() {
    for (state_->read_result(); !state_->settled; state_->read_result()) {
        state_->wait_readable();
    }
    return finish_exec();
}

Result<void> Spawned::finish_exec() {
    State& state = *state_;
    state.read_result();
    if (!state.settled) {
        return fail(Code::unavailable, "spawn " + state.path + ": not started yet");
    }
    if (state.error != 0) {
        auto error = fail_sys(
            state.error, "spawn " + state.path + ": " + std::string(describe(state.plan.failed)));
        if (state.plan.failed == SpawnStep::exec && state.error == ENOENT) {
            error.value().code = Code::missing;
        }
        return error;
    }
    if (state.oom_score_adj != 0) {
        write_oom_score(state.pid, std::exchange(state.oom_score_adj, 0));
    }
    return {};
}

Result<Spawned> spawn(const SpawnSpec& spec) {
    MOSAIC_TRY(check_spec(spec));
    auto state = std::make_unique<Spawned::State>();
    state->prepare(spec);
    MOSAIC_TRY(state->make_stack());
    MOSAIC_TRY(state->start());
    return Spawned(state.release());
}

Result<void> leave_session_keyring() {
    if (::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS) {
        return fail_sys(errno, "an empty session keyring");
    }
    own_keyring_joined = true;
    return {};
}

}  // namespace mosaic::process
