#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "process/pidfd.h"
#include "process/spawn.h"
#include "registry/sessions.h"
#include "wire/json.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic::test {

// A directory of its own that is removed at the end.
class Scratch {
  public:
    explicit Scratch(const std::string& parent = MOSAIC_BUILD_DIR);
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    [[nodiscard]] const std::string& path() const { return path_; }

    [[nodiscard]] std::string operator/(std::string_view name) const {
        return path_ + "/" + std::string(name);
    }

    // Makes the directories on the way.
    void write(std::string_view name, std::string_view content) const;
    void make_directory(std::string_view name) const;
    [[nodiscard]] std::string read(std::string_view name) const;

  private:
    std::string path_;
};

struct Finished {
    int exit_code = -1;
    std::string out;
    std::string err;

    // The one JSON value of standard output.
    [[nodiscard]] json::Value json() const;
};

// A child whose standard output can be waited for line by line. Killed and reaped at its end.
class Running {
  public:
    Running(const std::string& path,
            std::vector<std::string> argv,
            std::vector<std::string> env,
            int standard_input = -1);
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running();

    [[nodiscard]] pid_t pid() const { return spawned_->pid(); }

    // The next line of standard output; fails the test after 20 s.
    std::string line();
    // To its end, at most 60 s.
    Finished finish();
    // Waits for its exit without reading, and reaps it.
    process::Exit wait_exit();
    [[nodiscard]] bool alive() const;

    void close_output() { out_.reset(); }

  private:
    std::optional<process::Spawned> spawned_;
    UniqueFd out_;
    UniqueFd err_;
    wire::LineBuffer lines_{size_t{1} << 20U};
    bool reaped_ = false;
};

// `mosaic ARGUMENTS` with HOME in `home` and little else.
[[nodiscard]] std::vector<std::string> mosaic_argv(std::vector<std::string> arguments);
[[nodiscard]] std::vector<std::string> small_environment(const std::string& home);
Finished run_mosaic(const Scratch& scratch,
                    std::vector<std::string> arguments,
                    int standard_input = -1);

// A puppet (puppet.cc) that has said that it is ready.
[[nodiscard]] std::unique_ptr<Running> puppet(const std::string& name,
                                              const std::string& run_dir,
                                              int terms);

// An entry of `run_dir` whose processes are these.
[[nodiscard]] registry::SessionEntry entry_of(const std::string& run_dir,
                                              pid_t runner,
                                              pid_t outer);
// <scratch>/data/bus-host/sessions.json of this boot.
void write_sessions(const Scratch& scratch, const std::vector<registry::SessionEntry>& entries);

// admin.sock of <scratch>/data, served to one client by a script: each exchange takes a request of
// its verb and sends a reply. Another verb, or a request past the script's end, closes the
// connection.
struct Exchange {
    std::string verb;
    std::optional<json::Value> result;  // an ok reply
    std::string error;                  // else a refusing one
    std::string message;
    bool anonymous = false;  // with id 0
    bool silent = false;     // no reply, the connection stays open until the client goes
    bool closes = false;     // the connection is closed after it
};

class Server {
  public:
    Server(const Scratch& scratch, std::vector<Exchange> script);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    // Waits until the client has gone; the requests that came, in order.
    std::vector<wire::Request> requests();

  private:
    void serve(int listener);

    UniqueFd listener_;
    std::vector<Exchange> script_;
    std::vector<wire::Request> requests_;
    std::thread thread_;
};

[[nodiscard]] json::Value parsed(std::string_view text);

}  // namespace mosaic::test
