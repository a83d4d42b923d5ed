#include "session.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "process/proc.h"
#include "sandbox/environment.h"
#include "sandbox/layout.h"
#include "sandbox/probe.h"

namespace mosaic::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBwrap = "/usr/bin/bwrap";
constexpr const char* kRun = "r0123456789ab";
constexpr uid_t kNobody = 65534;
constexpr int64_t kShmBytes = int64_t{1} * 1024 * 1024;
// Key permissions: all to whoever has it in a keyring; view, read and search to its user as well.
constexpr unsigned kKeyOfItsKeyring = 0x3f000000;
constexpr unsigned kKeyOfItsUser = 0x3f0b0000;
constexpr int kPatienceMs = 60'000;  // far beyond what anything here takes

std::string make_temporary(std::string pattern) {
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    return pattern;
}

void write_file(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << content;
}

// A socket file; who listens on it doesn't matter here. Bound by a short relative path.
void make_socket(const std::string& path, std::vector<UniqueFd>& keep) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const UniqueFd directory(
        ::open(fs::path(path).parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "/proc/self/fd/" + std::to_string(directory.get()) + "/" +
                             fs::path(path).filename().string();
    REQUIRE(name.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    keep.push_back(std::move(fd));
}

void give_away(const std::string& root) {
    const uid_t uid = ordinary_uid();
    if (uid == ::getuid()) {
        return;
    }
    REQUIRE(::lchown(root.c_str(), uid, uid) == 0);
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
        REQUIRE(::lchown(entry.path().c_str(), uid, uid) == 0);
    }
}

std::string read_whole(int fd) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t n =
            ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
        if (n <= 0) {
            return text;
        }
        text.append(buffer.data(), static_cast<size_t>(n));
    }
}

// Appends what a pipe has; false at its end. Waits for at least one byte.
bool read_some(int fd, std::string& text) {
    pollfd wait{fd, POLLIN, 0};
    REQUIRE_MESSAGE(::poll(&wait, 1, kPatienceMs) == 1, "nothing came within the time limit");
    std::array<char, 4096> buffer{};
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) {
        text.append(buffer.data(), static_cast<size_t>(n));
    }
    return n > 0;
}

std::pair<UniqueFd, UniqueFd> make_pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

uid_t ordinary_uid() {
    return ::getuid() == 0 ? kNobody : ::getuid();
}

std::vector<std::string> become_ordinary() {
    if (::getuid() != 0) {
        return {};
    }
    const std::string id = std::to_string(kNobody);
    return {"/usr/bin/setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"};
}

World::World(const WorldNames& names) {
    // Not below the build directory: an ordinary user may have no way through to it. Not below
    // /tmp: no data root may lie there.
    scratch_ = make_temporary("/var/tmp/mosaic-sandbox-XXXXXX");
    tmp_ = make_temporary("/tmp/mosaic-sandbox-XXXXXX");
    parent_ = scratch_ + "/" + names.parent;
    stage_ = parent_ + "/data/bus-host/stage/aa";
    places_.data_root = parent_ + "/data";
    places_.run_dir = places_.data_root + "/launches/acme/" + kRun;
    places_.other_run = places_.data_root + "/launches/acme/rffffffffffff";
    places_.other_workspace = parent_ + "/other ws";
    places_.home = parent_ + "/home";
    places_.host_tmp_file = tmp_ + "/of-the-host";
    places_.host_shm_file = "/dev/shm/mosaic-sandbox-" + std::to_string(::getpid());
    places_.host_comm = process::read_stat(::getpid())->comm;
    for (const char* kind : {"cgroup", "ipc", "mnt", "pid", "user", "uts"}) {
        places_.host_namespaces +=
            fs::read_symlink(std::string("/proc/self/ns/") + kind).string() + " ";
    }
    places_.canary = "canary-of-the-host";
    places_.uid = ordinary_uid();
    places_.shm_bytes = kShmBytes;
    lay_files();
    lay_workspace(names);
    give_away(scratch_);
    give_away(tmp_);
    lay_kernel_objects();
}

void World::lay_kernel_objects() {
    const key_t key = 0x4d6f0000 | (::getpid() & 0xffff);
    segment_ = ::shmget(key, 4096, IPC_CREAT | 0666);
    REQUIRE(segment_ >= 0);
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0x%08x", static_cast<unsigned>(key));
    places_.shm_key = text.data();
    places_.queue = "/mosaic-sandbox-" + std::to_string(::getpid());
    const mqd_t queue =
        ::mq_open(places_.queue.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666, nullptr);
    REQUIRE(queue >= 0);
    REQUIRE(::fchmod(queue, 0666) == 0);
    ::mq_close(queue);
    // A keyring that all sessions started here would inherit, as a login's.
    REQUIRE(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) > 0);
    places_.kept_key = "mosaic-sandbox-kept";
    const auto add_key = [](const char* name, unsigned permissions) {
        const long id =
            ::syscall(SYS_add_key, "user", name, "secret", 6UL, KEY_SPEC_SESSION_KEYRING);
        REQUIRE(id > 0);
        if (ordinary_uid() != ::getuid()) {
            REQUIRE(::syscall(SYS_keyctl, KEYCTL_CHOWN, id, ordinary_uid(), ordinary_uid()) == 0);
        }
        REQUIRE(::syscall(SYS_keyctl, KEYCTL_SETPERM, id, permissions) == 0);
        return id;
    };
    key_ = add_key("mosaic-sandbox-open", kKeyOfItsUser);
    kept_key_ = add_key(places_.kept_key.c_str(), kKeyOfItsKeyring);
    places_.key = std::to_string(key_);
}

World::~World() {
    ::shmctl(segment_, IPC_RMID, nullptr);
    ::mq_unlink(places_.queue.c_str());
    for (const long key : {key_, kept_key_}) {
        ::syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_SESSION_KEYRING);
    }
    std::error_code ignored;
    fs::remove(places_.host_shm_file, ignored);
    fs::remove_all(scratch_, ignored);
    fs::remove_all(tmp_, ignored);
}

void World::lay_files() {
    const std::string& run = places_.run_dir;
    write_file(run + "/session.json", "{}");
    write_file(run + "/runner.log", "");
    write_file(run + "/bundle/prompt.md", "prompt");
    for (const char* name : {"home", "tmp", "session", "turns", "io"}) {
        fs::create_directories(run + "/rw/" + name);
    }
    write_file(places_.other_run + "/session.json", "{}");
    write_file(places_.other_workspace + "/theirs", "");
    write_file(places_.home + "/.ssh/id", "");
    write_file(places_.home + "/.config/mosaic/system.json", "{}");
    write_file(places_.home + "/.claude/settings.json", "{}");
    write_file(stage_ + "/mosaic-runner", "#!/bin/sh\n[ \"$1\" = self-test ]\n");
    fs::permissions(stage_ + "/mosaic-runner", fs::perms::owner_all);
    fs::copy_file(MOSAIC_PROBE_CALLS, stage_ + "/probe_calls");
    places_.calls = std::string(sandbox::kStagePath) + "/probe_calls";
    const std::string bus = places_.data_root + "/bus-host";
    write_file(bus + "/sessions.json", "{}");
    write_file(bus + "/broker.sqlite", "");
    for (const char* name : {"bus.sock", "launch.sock", "admin.sock"}) {
        make_socket(bus + "/" + name, sockets_);
    }
    write_file(places_.host_tmp_file, "");
    write_file(places_.host_shm_file, "");
    fs::permissions(places_.host_shm_file, fs::perms::all);
}

void World::lay_workspace(const WorldNames& names) {
    const std::string base = names.workspace_in_tmp ? tmp_ : parent_;
    places_.workspace = base + "/" + names.workspace;
    write_file(places_.workspace + "/mine", "of the workspace\n");
    configured_ = places_.workspace;
    if (names.workspace_by_link) {
        fs::create_directory_symlink(base, parent_ + "/way");
        configured_ = parent_ + "/way/" + names.workspace;
    }
}

sandbox::SandboxSpec World::spec() const {
    auto layout = sandbox::read_layout();
    REQUIRE(layout.has_value());
    REQUIRE(layout->missing == "");
    sandbox::SandboxSpec spec;
    spec.layout = std::move(*layout);
    spec.run_dir = places_.run_dir;
    spec.stage_dir = stage_;
    spec.workspace = places_.workspace;
    spec.bus_socket = places_.data_root + "/bus-host/bus.sock";
    spec.shm_bytes = places_.shm_bytes;
    return spec;
}

std::vector<std::string> World::environment() const {
    const config::Environment host = {{"PATH", "/usr/bin:/bin"},
                                      {"LANG", "C.UTF-8"},
                                      {"GH_TOKEN", places_.canary},
                                      {"SOME_SECRET", places_.canary},
                                      {"HOME", places_.home}};
    sandbox::EnvironmentSpec spec;
    spec.host = &host;
    spec.run = kRun;
    spec.run_dir = places_.run_dir;
    auto environment = sandbox::session_environment(spec);
    REQUIRE(environment.has_value());
    return environment->variables;
}

Session::Session(const Start& start) {
    auto [stdin_read, stdin_write] = make_pipe();
    auto [stdout_read, stdout_write] = make_pipe();
    auto [status_read, status_write] = make_pipe();
    stdin_ = std::move(stdin_write);
    stdout_ = std::move(stdout_read);
    status_pipe_ = std::move(status_read);
    stderr_file_.reset(::memfd_create("stderr", MFD_CLOEXEC));
    process::SpawnSpec spec;
    spec.argv = start.before;
    const std::vector<std::string> ordinary = become_ordinary();
    spec.argv.insert(spec.argv.begin(), ordinary.begin(), ordinary.end());
    spec.argv.insert(spec.argv.end(), start.argv.begin(), start.argv.end());
    spec.path = spec.argv.front();
    spec.env = start.environment;
    spec.descriptors = {{stdin_read.get(), 0},
                        {stdout_write.get(), 1},
                        {stderr_file_.get(), 2},
                        {status_write.get(), sandbox::kStatusFd}};
    if (start.workspace_fd >= 0) {
        spec.descriptors.emplace_back(start.workspace_fd, sandbox::kWorkspaceFd);
    }
    spec.new_keyring = start.new_keyring;
    spec.descriptors.insert(spec.descriptors.end(), start.more.begin(), start.more.end());
    auto spawned = process::spawn(spec);
    REQUIRE_MESSAGE(spawned.has_value(), (spawned ? "" : spawned.error().text));
    spawned_.emplace(std::move(*spawned));
    const auto executed = spawned_->wait_exec();
    REQUIRE_MESSAGE(executed.has_value(), (executed ? "" : executed.error().text));
    pidfd_ = spawned_->take_pidfd();
}

Session::~Session() {
    if (!finished_ && pidfd_.valid()) {
        read_status();
        if (status_.child_pid()) {
            if (const auto inner = process::open_pidfd(*status_.child_pid())) {
                ignore(process::signal_pidfd(inner->get(), SIGKILL), "it may be gone");
            }
        }
        ignore(process::signal_pidfd(pidfd_.get(), SIGKILL), "it may be gone");
        pollfd wait{pidfd_.get(), POLLIN, 0};
        ::poll(&wait, 1, kPatienceMs);
        ignore(process::reap(pidfd_.get()), "nobody asks any more");
    }
}

void Session::wait_for(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
        REQUIRE(read_some(stdout_.get(), output_));
    }
}

void Session::read_status() {
    for (;;) {
        pollfd wait{status_pipe_.get(), POLLIN, 0};
        std::string bytes;
        if (::poll(&wait, 1, 0) != 1 || !read_some(status_pipe_.get(), bytes)) {
            return;
        }
        const auto fed = status_.feed(bytes);
        CHECK_MESSAGE(fed.has_value(), (fed ? "" : fed.error().text));
    }
}

void Session::finish() {
    stdin_.reset();
    while (read_some(stdout_.get(), output_)) {
    }
    pollfd wait{pidfd_.get(), POLLIN, 0};
    REQUIRE_MESSAGE(::poll(&wait, 1, kPatienceMs) == 1, "bwrap didn't end within the time limit");
    const auto exit = process::reap(pidfd_.get());
    REQUIRE(exit.has_value());
    exit_ = *exit;
    finished_ = true;
    read_status();
    errors_ = read_whole(stderr_file_.get());
}

sandbox::End Session::end() const {
    return sandbox::map_exit(exit_, status_.exit_code(), sandbox::first_error_line(errors_));
}

bool sandbox_works() {
    static const std::string why_not = [] {
        if (!fs::exists(kBwrap)) {
            return std::string(kBwrap) + " is missing";
        }
        sandbox::BwrapOptions options;
        options.directory = "/";
        const auto layout = sandbox::read_layout();
        if (!layout || !layout->missing.empty()) {
            return layout ? layout->missing : layout.error().text;
        }
        Session session(
            {.argv = sandbox::bwrap_argv(
                 options, sandbox::system_binds(*layout, 4096), {"/bin/sh", "-c", ":"})});
        session.finish();
        if (session.exit().exit_code == 0 && session.exit().signal == 0) {
            return std::string();
        }
        const auto because =
            sandbox::explain(kBwrap, session.exit(), sandbox::first_error_line(session.errors()));
        return because.reason + " (" + because.remedy + ")";
    }();
    if (why_not.empty()) {
        return true;
    }
    const char* must = std::getenv("MOSAIC_MUST_WORK");
    if (must != nullptr && std::string(must) == "1") {
        FAIL(why_not);
    }
    MESSAGE("skipped: " << why_not);
    return false;
}

}  // namespace mosaic::test
