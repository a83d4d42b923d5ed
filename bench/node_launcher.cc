#include "bench/node_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/instant.h"
#include "process/pidfd.h"
#include "process/write_all.h"

namespace mosaic::bench {
namespace {

constexpr Duration kAnswerTakes = seconds(60);
constexpr const char* kScript = MOSAIC_BENCH_DIR "/launcher.mjs";

json::Value list_of(const std::vector<std::string>& words) {
    json::Array out;
    for (const std::string& word : words) {
        out.emplace_back(word);
    }
    return json::Value(std::move(out));
}

json::Value object_of(const std::vector<std::string>& env) {
    json::Value out = json::Object{};
    for (const std::string& variable : env) {
        const size_t equals = variable.find('=');
        if (equals != std::string::npos) {
            out.set(variable.substr(0, equals), variable.substr(equals + 1));
        }
    }
    return out;
}

}  // namespace

Result<std::unique_ptr<NodeLauncher>> NodeLauncher::start(const Settings& settings,
                                                          Waiter& waiter) {
    std::unique_ptr<NodeLauncher> out(new NodeLauncher(waiter));
    std::array<int, 2> commands{-1, -1};
    std::array<int, 2> answers{-1, -1};
    if (::pipe2(commands.data(), O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    const UniqueFd their_input(commands[0]);
    out->commands_.reset(commands[1]);
    if (::pipe2(answers.data(), O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    out->answers_.reset(answers[0]);
    const UniqueFd their_output(answers[1]);
    const UniqueFd log(
        ::open(settings.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log.valid()) {
        return fail_sys(errno, settings.log);
    }
    process::SpawnSpec spec;
    spec.path = settings.program;
    spec.argv = {settings.program, kScript};
    spec.env = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    spec.descriptors = {{their_input.get(), 0}, {their_output.get(), 1}, {log.get(), 2}};
    spec.parent_death_kill = true;
    MOSAIC_TRY_ASSIGN(process::Spawned child, process::spawn(spec));
    out->child_.emplace(std::move(child));
    MOSAIC_TRY(out->child_->wait_exec());
    json::Value first;
    first.set("env", object_of(settings.env));
    first.set("log", settings.log);
    first.set("workspace", settings.workspace);
    first.set("record", settings.record);
    MOSAIC_TRY(out->tell(first));
    return out;
}

NodeLauncher::~NodeLauncher() {
    if (child_) {
        ignore(process::signal_pidfd(child_->pidfd(), SIGKILL), "gone is what is wanted");
        pollfd gone{child_->pidfd(), POLLIN, 0};
        while (::poll(&gone, 1, -1) < 0 && errno == EINTR) {
        }
        ignore(process::reap(child_->pidfd()), "nobody asks how it ended");
    }
}

// A command is a few KiB, and the launcher reads at once: this doesn't block for long.
Result<void> NodeLauncher::tell(const json::Value& command) {
    return process::write_all(commands_.get(), json::dump(command) + "\n", "the Node.js launcher");
}

Result<void> NodeLauncher::launch(const std::string& run,
                                  const std::string& run_dir,
                                  const std::vector<std::string>& argv,
                                  const std::string& capability) {
    json::Value command;
    command.set("run", run);
    command.set("runDir", run_dir);
    command.set("argv", list_of(argv));
    command.set("capability", capability);
    return tell(command);
}

Result<json::Value> NodeLauncher::answer() {
    while (true) {
        if (const auto line = lines_.next()) {
            return json::parse(*line);
        }
        std::vector<pollfd> polls = {{answers_.get(), POLLIN, 0}};
        MOSAIC_TRY(waiter_.wait(polls, monotonic_now() + kAnswerTakes, "the Node.js launcher"));
        std::array<char, 4096> buffer{};
        const ssize_t n = ::read(answers_.get(), buffer.data(), buffer.size());
        if (n <= 0) {
            return fail(Code::unavailable,
                        "the Node.js launcher ended; see its runner.log (--keep)");
        }
        lines_.append({buffer.data(), static_cast<size_t>(n)});
    }
}

Error NodeLauncher::problem() {
    auto said = answer();
    return said ? Error{Code::unavailable, 0, "the Node.js launcher: " + json::dump(*said)}
                : std::move(said.error());
}

Result<void> NodeLauncher::end_all() {
    json::Value command;
    command.set("end", true);
    MOSAIC_TRY(tell(command));
    Result<void> out;
    while (true) {
        MOSAIC_TRY_ASSIGN(const json::Value said, answer());
        if (said.find("ended") != nullptr) {
            return out;
        }
        if (out) {
            out = fail(Code::unavailable, "the Node.js launcher: " + json::dump(said));
        }
    }
}

}  // namespace mosaic::bench
