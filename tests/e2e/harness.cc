#include "e2e/harness.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>

namespace mosaic::e2e {
namespace {

json::Value make_role(const std::string& name, const std::string& workspace, bool may_launch) {
    return object({
        {"definition", name},
        {"workspace", workspace},
        {"vars",
         object({{"harness", "script"},
                 {"provider", kProvider},
                 {"model", kModel},
                 {"thinking", kThinking},
                 {"script.command", "sh"},
                 {"limits.tools", json::Array{}},
                 {"limits.typed", may_launch ? strings({"launch", "message_send"}) : strings({})},
                 {"network", "host"}})},
        {"authority",
         object(
             {{"withinRole",
               may_launch ? strings({"message.send", "role.launch"}) : strings({"message.send"})},
              {"crossRole", strings({"message.send"})},
              {"gated", json::Array{}}})},
    });
}

std::string scratch_base() {
    const char* given = std::getenv("MOSAIC_TEST_SCRATCH");
    return given == nullptr || *given == '\0' ? "/var/tmp" : given;
}

std::string installed_prefix(World::Runner runner) {
    struct Place {
        const char* variable;
        const char* below_build;
    };

    const Place place = runner == World::Runner::real ? Place{"MOSAIC_E2E_PREFIX", "/e2e/prefix"}
                        : runner == World::Runner::puppet
                            ? Place{"MOSAIC_E2E_PUPPET", "/e2e/prefix-puppet"}
                            : Place{"MOSAIC_E2E_WEAK", "/e2e/prefix-weak"};
    const char* given = std::getenv(place.variable);
    if (given != nullptr && *given != '\0') {
        return given;
    }
    return std::string(MOSAIC_BUILD_DIR) + place.below_build;
}

// Zombies read as empty here and so never match.
bool process_names(pid_t pid, const std::string& path) {
    const std::string proc = "/proc/" + std::to_string(pid);
    return contains(read_text(proc + "/cmdline"), path) ||
           contains(read_text(proc + "/environ"), path);
}

}  // namespace

World::World(Runner runner) : prefix_(installed_prefix(runner)) {
    std::string pattern = scratch_base() + "/mosaic-e2e.XXXXXX";
    REQUIRE_MESSAGE(::mkdtemp(pattern.data()) != nullptr, pattern << ": " << std::strerror(errno));
    // The real path: the product reports those.
    root = std::filesystem::canonical(pattern);
    home = root + "/home";
    data = root + "/data";
    system_file = root + "/config/system.json";
    business_file = root + "/config/businesses/acme.json";
    for (const std::string& directory :
         {home, root + "/config/roles", root + "/config/businesses"}) {
        std::filesystem::create_directories(directory);
    }
    system = object({{"plugins", object({{"harness", strings({"script"})}})}});
    json::Value roles = json::Object{};
    for (const char* name : {"pm", "coder", "reviewer", "tester"}) {
        std::filesystem::create_directories(workspace(name));
        write_text(root + "/config/roles/" + name + ".md", std::string("# ") + name + "\n");
        roles.set(name, make_role(name, workspace(name), std::string(name) == "pm"));
    }
    business = object({
        {"id", "acme"},
        {"human", "jordan"},
        {"arbiters", object({{"technical", "pm"}, {"delivery", "pm"}})},
        {"roles", roles},
        {"launch",
         object({{"by", "pm"},
                 {"instances", strings({"coder", "reviewer", "tester"})},
                 {"models",
                  json::Array{object({{"provider", kProvider}, {"model", kModel}, {"max", 4}})}}})},
    });
}

bool World::failed() const {
    return std::uncaught_exceptions() > 0;
}

World::~World() {
    const bool unwinding = failed();
    if (host_.running()) {
        host_.signal(SIGTERM);
        const auto exit = host_.wait();
        if (!unwinding) {
            CHECK_MESSAGE((exit && exit->code == 0), "the host should end with 0 after SIGTERM");
        }
    }
    std::vector<pid_t> left = processes();
    if (killed_) {
        // A host's broker and helpers die with it, but not in the same moment; nothing else may. A
        // sandbox that was only tried (its /tmp is no run's) ends by itself when its outer process
        // was killed while it was being set up.
        std::erase_if(left, [](pid_t pid) {
            using namespace std::string_literals;
            const std::string line = read_text("/proc/" + std::to_string(pid) + "/cmdline");
            const bool helper = line.starts_with("mosaic-broker") ||
                                line.find("--tmpfs\0/tmp\0"s) != std::string::npos;
            return helper && wait_gone(pid);
        });
    }
    if (!unwinding) {
        std::string names;
        for (const pid_t pid : left) {
            std::string line = read_text("/proc/" + std::to_string(pid) + "/cmdline");
            std::replace(line.begin(), line.end(), '\0', ' ');
            names += "\n  " + std::to_string(pid) + " " + line.substr(0, 300);
        }
        CHECK_MESSAGE(left.empty(), "processes are left:" << names);
    } else {
        const std::string log = host_log();
        std::fprintf(stderr,
                     "--- %s/host.log, its end:\n%s\n",
                     root.c_str(),
                     log.substr(log.size() - std::min<size_t>(log.size(), 6000)).c_str());
    }
    for (const pid_t pid : left) {
        ::kill(pid, SIGKILL);
    }
    if (std::getenv("MOSAIC_TEST_KEEP") == nullptr) {
        std::error_code ignored;
        std::filesystem::remove_all(root, ignored);
    }
}

json::Value& World::role(std::string_view instance) {
    json::Value* found = business.find("roles")->find(instance);
    REQUIRE(found != nullptr);
    return *found;
}

void World::set_var(std::string_view instance, std::string_view name, json::Value value) {
    role(instance).find("vars")->set(name, std::move(value));
}

json::Value& World::launch_block() {
    json::Value* found = business.find("launch");
    REQUIRE(found != nullptr);
    return *found;
}

void World::write_config() {
    write_text(system_file, json::dump_pretty(system) + "\n", 0600);
    write_text(business_file, json::dump_pretty(business) + "\n", 0600);
}

Environment World::environment() const {
    Environment env = {
        {"HOME", home},
        {"PATH", prefix_ + "/bin:/usr/local/bin:/usr/bin:/bin"},
        {"LANG", "C.UTF-8"},
        {"XDG_STATE_HOME", root + "/state"},
        {"XDG_CONFIG_HOME", root + "/xdg"},
    };
    if (const passwd* user = ::getpwuid(::getuid()); user != nullptr) {
        env["USER"] = user->pw_name;
        env["LOGNAME"] = user->pw_name;
    }
    for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
        if (const char* value = std::getenv(name); value != nullptr) {
            env[name] = value;
        }
    }
    return env;
}

std::vector<std::string> World::host_argv() const {
    return {prefix_ + "/bin/mosaic-host",
            "--business",
            business_file,
            "--config",
            system_file,
            "--data",
            data};
}

namespace {

// Root's ids for the time of one spawn, where the tests' main left the way to them open: the host
// is then started by root, and has to become the tests' user.
class RootHost {
  public:
    RootHost() {
        uid_t saved = 0;
        REQUIRE(::getresuid(&user_, &user_, &saved) == 0);
        group_ = ::getegid();
        is_on_ = saved == 0 && user_ != 0;
        if (is_on_) {
            REQUIRE(::setresuid(0, 0, 0) == 0);
            REQUIRE(::setresgid(0, 0, 0) == 0);
        }
    }

    RootHost(const RootHost&) = delete;
    RootHost& operator=(const RootHost&) = delete;

    ~RootHost() {
        if (is_on_) {
            CHECK(::setresgid(group_, group_, group_) == 0);
            CHECK(::setresuid(user_, user_, 0) == 0);
            CHECK(::prctl(PR_SET_DUMPABLE, 1) == 0);
        }
    }

    [[nodiscard]] bool is_on() const { return is_on_; }

    [[nodiscard]] std::string user() const {
        const passwd* entry = ::getpwuid(user_);
        REQUIRE(entry != nullptr);
        return entry->pw_name;
    }

  private:
    uid_t user_ = 0;
    gid_t group_ = 0;
    bool is_on_ = false;
};

}  // namespace

void World::spawn_host(const StartOptions& options) {
    write_config();
    const std::string notify_path = root + "/notify.sock";
    ::unlink(notify_path.c_str());
    notify_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(notify_path.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, notify_path.c_str(), notify_path.size());
    REQUIRE(::bind(notify_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);

    std::vector<std::string> argv = host_argv();
    if (options.pm) {
        argv.emplace_back("--pm");
    }
    argv.insert(argv.end(), options.more_arguments.begin(), options.more_arguments.end());
    Environment env = environment();
    env["NOTIFY_SOCKET"] = notify_path;
    for (const auto& [name, value] : options.more_env) {
        env[name] = value;
    }
    UniqueFd log(
        ::open((root + "/host.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    REQUIRE(log.valid());
    const RootHost root_host;
    if (root_host.is_on()) {
        argv.insert(argv.end(), {"--user", root_host.user()});
    }
    killed_ = false;
    host_ =
        Child::start(argv, env, {.out = log.get(), .err = log.get(), .extra = options.inherited});
}

void World::start(const StartOptions& options) {
    if (!try_start(options)) {
        const auto exit = host_.wait();
        FAIL("the host ended before it was ready, with " << exit->code << "; its log:\n"
                                                         << host_log());
    }
}

bool World::try_start(const StartOptions& options) {
    spawn_host(options);
    const int64_t deadline = now_ms() + kWaitMs;
    while (true) {
        std::array<pollfd, 2> polls{pollfd{.fd = notify_.get(), .events = POLLIN, .revents = 0},
                                    pollfd{.fd = host_.pidfd(), .events = POLLIN, .revents = 0}};
        const int64_t left = deadline - now_ms();
        const int n =
            ::poll(polls.data(), polls.size(), static_cast<int>(std::max<int64_t>(left, 0)));
        REQUIRE_MESSAGE(n > 0, "no READY=1 from the host; its log:\n" << host_log());
        if (polls[0].revents != 0) {
            std::array<char, 4096> buffer{};
            const ssize_t got = ::recv(notify_.get(), buffer.data(), buffer.size(), 0);
            if (got > 0 && contains({buffer.data(), static_cast<size_t>(got)}, "READY=1")) {
                return true;
            }
        } else if (polls[1].revents != 0) {
            return false;
        }
    }
}

Exit World::start_fails(const StartOptions& options) {
    spawn_host(options);
    const auto exit = host_.wait();
    REQUIRE_MESSAGE(exit.has_value(), "the host should have ended; its log:\n" << host_log());
    return *exit;
}

Finished World::run_host(const std::vector<std::string>& more_arguments) {
    std::vector<std::string> argv = host_argv();
    argv.insert(argv.end(), more_arguments.begin(), more_arguments.end());
    return run(argv, environment());
}

void World::stop() {
    host_.signal(SIGTERM);
    const auto exit = host_.wait();
    REQUIRE_MESSAGE(exit.has_value(), "the host should stop; its log:\n" << host_log());
    CHECK(exit->code == 0);
}

void World::kill() {
    host_.signal(SIGKILL);
    REQUIRE(host_.wait().has_value());
    killed_ = true;
}

Finished World::mosaic(std::vector<std::string> arguments, int timeout_ms) const {
    arguments.insert(arguments.begin(), prefix_ + "/bin/mosaic");
    arguments.insert(arguments.end(), {"--config", system_file, "--data", data});
    return run(arguments, environment(), timeout_ms);
}

std::vector<std::string> World::shell_argv(const std::string& input) const {
    return {"/bin/sh",
            "-c",
            input + " | exec \"$0\" \"$@\"",
            prefix_ + "/bin/mosaic",
            "sandbox",
            "shell",
            "coder",
            "--config",
            system_file,
            "--business",
            "acme",
            "--data",
            data};
}

json::Value World::launch(std::string_view instance, std::string_view thread) {
    std::vector<std::string> arguments = {"launch", std::string(instance), "--json"};
    if (!thread.empty()) {
        arguments.insert(arguments.end(), {"--thread", std::string(thread)});
    }
    Finished finished = mosaic(arguments);
    // A run that has just ended writes its last record before its seat is free.
    const int64_t deadline = now_ms() + kWaitMs;
    while (contains(finished.out, "instance-running") && now_ms() < deadline) {
        finished = mosaic(arguments);
    }
    REQUIRE_MESSAGE(finished.exit.code == 0,
                    "launch " << instance << ": " << finished.out << finished.err);
    const json::Value reply = finished.json();
    REQUIRE(reply.find("result") != nullptr);
    return *reply.find("result");
}

std::string World::launch_refused(std::string_view instance, std::string_view thread) {
    std::vector<std::string> arguments = {"launch", std::string(instance), "--json"};
    if (!thread.empty()) {
        arguments.insert(arguments.end(), {"--thread", std::string(thread)});
    }
    const Finished finished = mosaic(arguments);
    CHECK(finished.exit.code == 3);
    const json::Value reply = finished.json();
    CHECK(*reply.find("ok") == json::Value(false));
    const json::Value* message = reply.find("message");
    refusal_message = message != nullptr && message->string() != nullptr ? *message->string() : "";
    return text(reply, "error");
}

void World::stop_run(const std::string& target) {
    const Finished finished = mosaic({"stop", target, "--json"});
    CAPTURE(finished.out);
    CAPTURE(finished.err);
    REQUIRE(finished.exit.code == 0);
    CHECK(*finished.json().find("stopped") == json::Value(true));
}

std::string World::ask(std::string_view instance, std::string_view body, std::string_view thread) {
    std::vector<std::string> arguments = {
        "send", std::string(instance), std::string(body), "--wait", "30", "--json"};
    if (!thread.empty()) {
        arguments.insert(arguments.end(), {"--thread", std::string(thread)});
    }
    const Finished finished = mosaic(arguments);
    REQUIRE_MESSAGE(finished.exit.code == 0,
                    "send " << instance << ": " << finished.out << finished.err);
    const json::Value reply = finished.json();
    REQUIRE(reply.find("reply") != nullptr);
    CHECK(text(*reply.find("reply"), "from") == instance);
    return text(*reply.find("reply"), "body");
}

std::vector<json::Value> World::ps() const {
    const Finished finished = mosaic({"ps", "--json"});
    REQUIRE_MESSAGE(finished.exit.code == 0, finished.err);
    const json::Value value = finished.json();
    REQUIRE(value.array() != nullptr);
    return *value.array();
}

bool World::wait_counted_warm(size_t count) const {
    const std::string sample = "\nmosaic_sessions{state=\"warm\"} ";
    LineStream stream = admin();
    const int64_t deadline = now_ms() + kWaitMs;
    while (now_ms() < deadline) {
        const json::Value reply = stream.request("metrics", json::Object{});
        const std::string answer = text(*reply.find("result"), "text");
        const size_t at = answer.find(sample);
        REQUIRE(at != std::string::npos);
        if (std::strtoull(answer.c_str() + at + sample.size(), nullptr, 10) >= count) {
            return true;
        }
    }
    return false;
}

LineStream World::admin() const {
    LineStream stream = LineStream::connect(bus_host() + "/admin.sock");
    REQUIRE(stream.valid());
    return stream;
}

std::vector<json::Value> World::events() const {
    LineStream stream = admin();
    std::vector<json::Value> all;
    int64_t since = 0;
    while (true) {
        const json::Value reply =
            stream.request("events", object({{"since", since}, {"follow", false}}));
        REQUIRE_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
        const json::Array& page = *reply.find("result")->find("events")->array();
        if (page.empty()) {
            return all;
        }
        all.insert(all.end(), page.begin(), page.end());
        since = number(*reply.find("result"), "next");
    }
}

std::vector<json::Value> World::log() const {
    std::vector<json::Value> lines;
    const std::string all = read_text(data + "/launches/acme.jsonl");
    size_t start = 0;
    for (size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n', start)) {
        const auto value =
            json::parse(std::string_view(all).substr(start, end - start), {.depth_max = 16});
        REQUIRE_MESSAGE(value.has_value(), "launch log: " << all.substr(start, end - start));
        lines.push_back(*value);
        start = end + 1;
    }
    return lines;
}

std::vector<json::Value> World::log(std::string_view event) const {
    std::vector<json::Value> lines = log();
    std::erase_if(lines, [&](const json::Value& line) { return text(line, "event") != event; });
    return lines;
}

json::Value World::wait_log(std::string_view event, std::string_view run) {
    std::optional<json::Value> found;
    const bool came = wait_for_change({data + "/launches"}, [&] {
        for (const json::Value& line : log(event)) {
            const json::Value* of = line.find("run");
            if (of != nullptr && *of == json::Value(run)) {
                found = line;
            }
        }
        return found.has_value();
    });
    REQUIRE_MESSAGE(came, "no " << event << " line of " << run << " in the launch log");
    return *found;
}

std::vector<json::Value> World::wait_log_count(std::string_view event, size_t count) {
    const bool came =
        wait_for_change({data + "/launches"}, [&] { return log(event).size() >= count; });
    REQUIRE_MESSAGE(came,
                    "only " << log(event).size() << " of " << count << " " << event << " lines");
    return log(event);
}

std::vector<json::Value> World::sessions() const {
    const std::string file = read_text(bus_host() + "/sessions.json");
    const auto value = json::parse(file, {.depth_max = 16});
    REQUIRE_MESSAGE(value.has_value(), "sessions.json: " << file);
    REQUIRE(value->find("sessions") != nullptr);
    return *value->find("sessions")->array();
}

std::optional<json::Value> World::session(std::string_view run) const {
    for (const json::Value& entry : sessions()) {
        if (text(entry, "run") == run) {
            return entry;
        }
    }
    return std::nullopt;
}

std::optional<json::Value> World::session_of(std::string_view instance) const {
    for (const json::Value& entry : sessions()) {
        if (text(entry, "instance") == instance && entry.find("thread") == nullptr) {
            return entry;
        }
    }
    return std::nullopt;
}

bool World::wait_sessions(size_t count) {
    return wait_for_change({bus_host()}, [&] { return sessions().size() == count; });
}

std::vector<pid_t> World::processes() const {
    std::vector<pid_t> found;
    DIR* proc = ::opendir("/proc");
    REQUIRE(proc != nullptr);
    while (const dirent* entry = ::readdir(proc)) {
        const pid_t pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
        if (pid > 0 && pid != ::getpid() && process_names(pid, root + "/")) {
            found.push_back(pid);
        }
    }
    ::closedir(proc);
    return found;
}

std::vector<pid_t> World::survivors() const {
    std::vector<pid_t> found = processes();
    const pid_t broker = broker_pid();
    std::erase_if(found, [&](pid_t pid) {
        if (pid == host_.pid() || pid == broker) {
            return true;
        }
        const std::string line = read_text("/proc/" + std::to_string(pid) + "/cmdline");
        return (contains(line, "--trim-run") || contains(line, "--remove-run")) && wait_gone(pid);
    });
    return found;
}

pid_t World::broker_pid() const {
    for (const pid_t pid : processes()) {
        const std::string proc = "/proc/" + std::to_string(pid);
        const std::string status = read_text(proc + "/status");
        if (contains(status, "PPid:\t" + std::to_string(host_.pid()) + "\n") &&
            contains(read_text(proc + "/cmdline"), "mosaic-broker")) {
            return pid;
        }
    }
    // Its command line may hold nothing of the data root: look among the host's children.
    const std::string children = read_text("/proc/" + std::to_string(host_.pid()) + "/task/" +
                                           std::to_string(host_.pid()) + "/children");
    size_t at = 0;
    while (at < children.size()) {
        const pid_t pid = static_cast<pid_t>(std::strtol(children.c_str() + at, nullptr, 10));
        if (pid > 0 &&
            contains(read_text("/proc/" + std::to_string(pid) + "/cmdline"), "mosaic-broker")) {
            return pid;
        }
        at = children.find(' ', at);
        at = at == std::string::npos ? children.size() : at + 1;
    }
    return 0;
}

std::string text(const json::Value& object, std::string_view key) {
    const json::Value* found = object.find(key);
    REQUIRE_MESSAGE((found != nullptr && found->string() != nullptr),
                    "no string " << key << " in " << json::dump(object));
    return *found->string();
}

int64_t number(const json::Value& object, std::string_view key) {
    const json::Value* found = object.find(key);
    REQUIRE_MESSAGE((found != nullptr && found->integer() != nullptr),
                    "no integer " << key << " in " << json::dump(object));
    return *found->integer();
}

bool is_null(const json::Value& object, std::string_view key) {
    const json::Value* found = object.find(key);
    return found == nullptr || found->is_null();
}

json::Value object(std::initializer_list<json::Member> members) {
    return json::Value(json::Object(members));
}

json::Value strings(std::initializer_list<const char*> items) {
    json::Array array;
    for (const char* item : items) {
        array.emplace_back(item);
    }
    return json::Value(std::move(array));
}

std::string trim(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
        text.pop_back();
    }
    return text;
}

bool contains(std::string_view haystack, std::string_view needle) {
    return haystack.find(needle) != std::string_view::npos;
}

void check_contains(const char* file,
                    int line,
                    std::string_view haystack,
                    std::string_view needle) {
    if (contains(haystack, needle)) {
        CHECK(true);
    } else {
        ADD_FAIL_CHECK_AT(
            file, line, "expected \"" << std::string(needle) << "\" in: " << std::string(haystack));
    }
}

pid_t outer_pid(const json::Value& entry) {
    return static_cast<pid_t>(number(entry, "pid"));
}

pid_t runner_pid(const json::Value& entry) {
    return static_cast<pid_t>(number(entry, "runnerPid"));
}

}  // namespace mosaic::e2e
