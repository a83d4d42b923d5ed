#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "e2e/process.h"
#include "wire/json.h"

// One business in a scratch directory of its own, and the real programs on it. Tests run beside
// each other: nothing here is shared but the installed programs.
//
// The scratch directory is /var/tmp/mosaic-e2e.XXXXXX (or below $MOSAIC_TEST_SCRATCH), short enough
// for socket paths and not under /tmp:
//   home/  config/{system.json,businesses/acme.json,roles/*.md}  ws/<instance>/  data/  host.log
//
// The business: the human jordan; pm (may launch and send), coder, reviewer, tester; at most four
// sessions of its one model. Every role runs `sh` as its script.command: a message's body is a
// shell script, and what it prints is the reply.

namespace mosaic::e2e {

constexpr const char* kProvider = "local";
constexpr const char* kModel = "shell";
constexpr const char* kThinking = "off";

struct StartOptions {
    bool pm = false;
    std::vector<std::string> more_arguments;
    Environment more_env;
    std::vector<int> inherited;  // descriptors that the host gets without close-on-exec
};

class World {
  public:
    enum class Runner {
        real,
        // A stand-in for mosaic-runner that a test drives: see puppet.h.
        puppet,
        // The real one, which lacks what the variable WEAK_RUNNER says: see weak_runner.cc.
        weak,
    };

    explicit World(Runner runner = Runner::real);
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    // Stops the host if it runs, checks that it ends with 0 and that no process of this data root
    // is left, and removes the scratch directory. After a failed test it kills what is left and
    // prints the host's log instead.
    ~World();

    // Both files as they will be written; change them before start() or call write_config() after.
    json::Value system;
    json::Value business;
    // The `roles` member of one instance, its vars, and the launch block.
    json::Value& role(std::string_view instance);
    void set_var(std::string_view instance, std::string_view name, json::Value value);
    json::Value& launch_block();
    void write_config();

    // Starts the host and waits for READY=1.
    void start(const StartOptions& options = {});
    // The same, but the host may die before: then false, and it isn't waited for.
    [[nodiscard]] bool try_start(const StartOptions& options = {});
    // Starts a host that must end before it is ready; how it ended. Its log is in host_log().
    Exit start_fails(const StartOptions& options = {});
    // A second host beside the first, waited for.
    [[nodiscard]] Finished run_host(const std::vector<std::string>& more_arguments = {});
    // SIGTERM, and the exit code must be 0.
    void stop();
    // SIGKILL, reaped.
    void kill();

    [[nodiscard]] Child& host() { return host_; }

    // What host, runner and commands wrote about themselves since the World began.
    [[nodiscard]] std::string host_log() const { return read_text(root + "/host.log"); }

    // An operator's shell in the coder's sandbox, which gets what the shell command `input` writes.
    [[nodiscard]] std::vector<std::string> shell_argv(const std::string& input) const;
    // `mosaic ARGUMENTS... --config F --data D`.
    [[nodiscard]] Finished mosaic(std::vector<std::string> arguments,
                                  int timeout_ms = kWaitMs) const;
    // `mosaic launch --json`: must be granted, once an ended run of the seat has left it; the
    // result.
    json::Value launch(std::string_view instance, std::string_view thread = "");
    // Must be refused: the error code. The message is in `refusal_message`.
    std::string launch_refused(std::string_view instance, std::string_view thread = "");
    std::string refusal_message;
    // `mosaic stop --json`: must have stopped it.
    void stop_run(const std::string& target);
    // Sends a message and waits for its reply's body; the test fails when none comes.
    std::string ask(std::string_view instance, std::string_view body, std::string_view thread = "");
    [[nodiscard]] std::vector<json::Value> ps() const;

    // A connection to admin.sock, as the human.
    [[nodiscard]] LineStream admin() const;
    // Waits until the host counts at least so many seats as warm: their entries are there a moment
    // before a launch may take them. False when it doesn't come to that.
    [[nodiscard]] bool wait_counted_warm(size_t count) const;
    // All events so far.
    [[nodiscard]] std::vector<json::Value> events() const;

    // All lines of the launch log; those of one kind.
    [[nodiscard]] std::vector<json::Value> log() const;
    [[nodiscard]] std::vector<json::Value> log(std::string_view event) const;
    // Waits for a line with this event and run, and returns it.
    json::Value wait_log(std::string_view event, std::string_view run);
    // Waits until `log(event)` has this many lines.
    std::vector<json::Value> wait_log_count(std::string_view event, size_t count);
    // The entries of sessions.json.
    [[nodiscard]] std::vector<json::Value> sessions() const;
    [[nodiscard]] std::optional<json::Value> session(std::string_view run) const;
    // The plain run of an instance.
    [[nodiscard]] std::optional<json::Value> session_of(std::string_view instance) const;
    // Waits until sessions.json has this many entries; false when it doesn't come to that.
    bool wait_sessions(size_t count);

    [[nodiscard]] std::string bus_host() const { return data + "/bus-host"; }

    [[nodiscard]] std::string run_directory(std::string_view run) const {
        return data + "/launches/acme/" + std::string(run);
    }

    [[nodiscard]] std::string workspace(std::string_view instance) const {
        return root + "/ws/" + std::string(instance);
    }

    [[nodiscard]] std::string prefix() const { return prefix_; }

    // What is started from now on comes from another installation.
    void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

    [[nodiscard]] Environment environment() const;
    [[nodiscard]] std::vector<std::string> host_argv() const;

    // Every process whose command line or environment names the scratch directory, this process and
    // zombies excepted.
    [[nodiscard]] std::vector<pid_t> processes() const;
    // Those that are neither the host, nor its broker, nor a child that tidies up, which is
    // awaited.
    [[nodiscard]] std::vector<pid_t> survivors() const;
    // The broker: the host's child that runs mosaic-broker.
    [[nodiscard]] pid_t broker_pid() const;

    std::string root;
    std::string home;
    std::string data;
    std::string system_file;
    std::string business_file;

  private:
    void spawn_host(const StartOptions& options);
    [[nodiscard]] bool failed() const;

    std::string prefix_;
    bool killed_ = false;  // the last host, by kill(), and no other has been started since
    Child host_;
    UniqueFd notify_;
};

// Members of JSON objects, failing the test when they aren't there or are of another kind.
[[nodiscard]] std::string text(const json::Value& object, std::string_view key);
[[nodiscard]] int64_t number(const json::Value& object, std::string_view key);
[[nodiscard]] bool is_null(const json::Value& object, std::string_view key);
[[nodiscard]] json::Value object(std::initializer_list<json::Member> members);
[[nodiscard]] json::Value strings(std::initializer_list<const char*> items);
[[nodiscard]] std::string trim(std::string text);
[[nodiscard]] bool contains(std::string_view haystack, std::string_view needle);

// CHECK that a text holds another; shows both when it doesn't.
#define CHECK_CONTAINS(...) ::mosaic::e2e::check_contains(__FILE__, __LINE__, __VA_ARGS__)
void check_contains(const char* file, int line, std::string_view haystack, std::string_view needle);

// The pid members of a session entry.
[[nodiscard]] pid_t outer_pid(const json::Value& entry);
[[nodiscard]] pid_t runner_pid(const json::Value& entry);

}  // namespace mosaic::e2e
