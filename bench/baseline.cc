#include "bench/baseline.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <variant>

#include "base/instant.h"
#include "bench/sessions.h"
#include "process/files.h"
#include "process/pidfd.h"
#include "process/proc.h"
#include "sandbox/binds.h"
#include "sandbox/seccomp.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace mosaic::bench {
namespace {

namespace fs = std::filesystem;

constexpr Duration kClaimTakes = seconds(60);
constexpr Duration kEndTakes = seconds(30);
constexpr uint64_t kFileBytesMax = uint64_t{16} * 1024 * 1024;
constexpr const char* kSetpriv = "/usr/bin/setpriv";
constexpr const char* kStagePath = "/run/mosaic";

// The arguments that switch a level on, as they stand in the product's; "*" is any word.
const std::vector<std::vector<std::string>>& words_of(Level level) {
    static const std::array<std::vector<std::vector<std::string>>, kLevels> kWords = {{
        {{"--seccomp", "*"}},
        {},
        {{"--remount-ro", "/dev"}},
        {{"--size", "*", "--perms", "*", "--tmpfs", "/dev/shm"}},
        {{"--remount-ro", "/proc"}},
        {{"--disable-userns"}},
        {{"--cap-drop", "ALL"}},
        {{"--remount-ro", "/"}},
        {{"--unshare-ipc"}, {"--unshare-uts"}, {"--unshare-cgroup"}},
    }};
    return kWords[static_cast<size_t>(level)];
}

bool stands_at(const std::vector<std::string>& argv,
               size_t at,
               const std::vector<std::string>& words) {
    return at + words.size() <= argv.size() &&
           std::equal(words.begin(),
                      words.end(),
                      argv.begin() + static_cast<std::ptrdiff_t>(at),
                      [](const std::string& word, const std::string& there) {
                          return word == "*" || word == there;
                      });
}

std::vector<std::string> without_words(const std::vector<std::string>& argv,
                                       const std::vector<std::string>& words) {
    std::vector<std::string> out;
    for (size_t i = 0; i < argv.size(); ++i) {
        if (stands_at(argv, i, words)) {
            i += words.size() - 1;
        } else {
            out.push_back(argv[i]);
        }
    }
    return out;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
    }
    return text;
}

// Files below `root`, by relative path.
Result<std::vector<std::string>> files_below(const std::string& root) {
    std::vector<std::string> out;
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(root, error);
         !error && at != fs::recursive_directory_iterator();
         at.increment(error)) {
        if (at->is_regular_file(error)) {
            out.push_back(at->path().lexically_relative(root).string());
        }
    }
    if (error) {
        return fail(Code::system, root + ": " + error.message());
    }
    std::sort(out.begin(), out.end());
    return out;
}

// The template's arguments with the changes that make B of them, still with the template's paths.
Result<std::vector<std::string>> plain_argv(const std::vector<std::string>& argv, bool& seccomp) {
    std::vector<std::string> out;
    bool staged = false;
    for (size_t i = 0; i < argv.size(); ++i) {
        if (argv[i] == "--seccomp" && i + 1 < argv.size()) {
            seccomp = true;
            ++i;
        } else if (argv[i] == "--ro-bind" && i + 2 < argv.size() && argv[i + 2] == kStagePath) {
            MOSAIC_TRY_ASSIGN(const std::vector<std::string> files, files_below(argv[i + 1]));
            for (const std::string& file : files) {
                out.insert(
                    out.end(),
                    {"--ro-bind", argv[i + 1] + "/" + file, std::string(kStagePath) + "/" + file});
            }
            staged = true;
            i += 2;
        } else if (argv[i] == "--") {
            out.insert(out.end(), {"--", kSetpriv, "--pdeathsig", "KILL", "--"});
            out.insert(out.end(), argv.begin() + static_cast<std::ptrdiff_t>(i) + 1, argv.end());
            break;
        } else {
            out.push_back(argv[i]);
        }
    }
    if (!staged) {
        return fail(Code::invalid, "the product's bwrap has no staged tree at /run/mosaic");
    }
    return out;
}

// The paths and the run of a template's text turned into a slot's; the staged tree stays where the
// host laid it.
struct Renaming {
    std::string data, plain;  // with '/' at the end
    std::string from_run, to_run;

    [[nodiscard]] std::string operator()(const std::string& text) const {
        if (text.starts_with(data + "bus-host/stage/")) {
            return text;
        }
        return replace_all(replace_all(text, data, plain), from_run, to_run);
    }
};

// A copy of a run directory: its directories and regular files, the texts renamed.
Result<void> copy_run(const std::string& from, const std::string& to, const Renaming& renamed) {
    std::error_code error;
    MOSAIC_TRY(make_directories(to));
    for (auto at = fs::recursive_directory_iterator(from, error);
         !error && at != fs::recursive_directory_iterator();
         at.increment(error)) {
        const std::string target = to + "/" + at->path().lexically_relative(from).string();
        if (at->is_directory(error)) {
            MOSAIC_TRY(make_directories(target));
        } else if (at->is_regular_file(error)) {
            MOSAIC_TRY_ASSIGN(const std::string text,
                              process::read_file(at->path().string(), kFileBytesMax));
            MOSAIC_TRY(write_file(target, renamed(text)));
        }
    }
    if (error) {
        return fail(Code::system, from + ": " + error.message());
    }
    return {};
}

std::string capability_line() {
    wire::CapabilityLine line;
    line.cap = std::string(64, 'a');
    line.launched_by = "jordan";
    return wire::encode(line);
}

std::string run_of_slot(int index) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "r%012x", static_cast<unsigned>(index));
    return text.data();
}

}  // namespace

Result<Template> read_template(const Scratch& scratch) {
    MOSAIC_TRY_ASSIGN(std::vector<Session> sessions, read_sessions(scratch));
    std::erase_if(sessions, [](const Session& session) { return session.warm; });
    if (sessions.size() != 1) {
        return fail(Code::invalid,
                    "expected one session, found " + std::to_string(sessions.size()));
    }
    const Session& session = sessions.front();
    Template out;
    out.run = session.run;
    out.run_dir = session.run_dir;
    // The product's gate is the host's to open.
    out.argv = without_words(process::read_cmdline(session.outer), {"--args", "*"});
    const std::string environ = "/proc/" + std::to_string(session.outer) + "/environ";
    MOSAIC_TRY_ASSIGN(const std::string variables, process::read_file(environ, kFileBytesMax));
    out.env = process::parse_cmdline(variables);
    return out;
}

std::vector<std::string> argv_without(const std::vector<std::string>& argv, Level level) {
    std::vector<std::string> out = argv;
    for (const std::vector<std::string>& words : words_of(level)) {
        out = without_words(out, words);
    }
    return out;
}

Baseline::Baseline(Waiter& waiter, const Template& model, std::string runner)
    : waiter_(waiter), runner_(std::move(runner)), env_(model.env) {}

Result<Baseline> Baseline::make(const Scratch& scratch,
                                Waiter& waiter,
                                const Template& model,
                                const std::string& runner,
                                int count_max) {
    Baseline out(waiter, model, runner);
    for (size_t i = 0; i + 2 < model.argv.size(); ++i) {
        if (model.argv[i] == "--bind-fd") {
            out.workspace_ = model.argv[i + 2];
        }
    }
    out.workspace_fd_.reset(::open(out.workspace_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    out.null_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const std::string plain = scratch.plain();
    out.log_.reset(
        ::open((plain + "/runner.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!out.workspace_fd_.valid() || !out.null_.valid() || !out.log_.valid()) {
        return fail_sys(errno, "the baselines' workspace " + out.workspace_ + " or log");
    }
    MOSAIC_TRY_ASSIGN(const std::string program,
                      sandbox::seccomp_program(sandbox::session_filter(false)));
    MOSAIC_TRY_ASSIGN(out.seccomp_, sandbox::program_file(program));
    MOSAIC_TRY(make_directories(plain + "/bus-host"));
    MOSAIC_TRY(out.listen(plain + "/bus-host/bus.sock"));
    for (int i = 0; i < count_max; ++i) {
        MOSAIC_TRY(out.add_slot(scratch, model, i));
    }
    return out;
}

Result<void> Baseline::listen(const std::string& path) {
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return fail(Code::too_large, path + ": too long for a socket");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
            0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0) {
        return fail_sys(errno, path);
    }
    return {};
}

Result<void> Baseline::add_slot(const Scratch& scratch, const Template& model, int index) {
    Slot slot;
    slot.run = run_of_slot(index);
    const Renaming renamed{scratch.data() + "/", scratch.plain() + "/", model.run, slot.run};
    slot.run_dir = renamed(model.run_dir);
    MOSAIC_TRY(copy_run(model.run_dir, slot.run_dir, renamed));
    MOSAIC_TRY_ASSIGN(slot.argv, plain_argv(model.argv, without_seccomp_));
    std::transform(slot.argv.begin(), slot.argv.end(), slot.argv.begin(), renamed);
    std::transform(model.argv.begin(), model.argv.end(), std::back_inserter(slot.whole), renamed);
    slots_.push_back(std::move(slot));
    return {};
}

process::SpawnSpec Baseline::spec_of(const Slot& slot, Plain kind) const {
    process::SpawnSpec spec;
    spec.descriptors = {{log_.get(), 1}, {log_.get(), 2}};
    if (kind == Plain::bwrap) {
        spec.argv = slot.argv;
        spec.path = slot.argv.front();
        spec.descriptors.emplace_back(null_.get(), sandbox::kStatusFd);
        spec.descriptors.emplace_back(workspace_fd_.get(), sandbox::kWorkspaceFd);
    } else {
        spec.path = runner_;
        spec.argv = {runner_, slot.run_dir};
        spec.directory = slot.run_dir;
    }
    return spec;
}

Result<void> Baseline::start(Slot& slot, process::SpawnSpec spec) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    const UniqueFd read_end(ends[0]);
    slot.input.reset(ends[1]);
    const std::string text = capability_line();
    if (::write(slot.input.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return fail_sys(errno, "the capability's pipe");
    }
    spec.env = env_;
    spec.descriptors.emplace_back(read_end.get(), 0);
    slot.claimed = false;
    slot.begin = monotonic_now();
    MOSAIC_TRY_ASSIGN(process::Spawned child, process::spawn(spec));
    slot.child.emplace(std::move(child));
    return {};
}

Result<void> Baseline::use_node(const Scratch& scratch, const std::string& node) {
    const std::string plain = scratch.plain();
    MOSAIC_TRY_ASSIGN(
        node_,
        NodeLauncher::start(
            {node, env_, workspace_, plain + "/runner.log", plain + "/sessions.json"}, waiter_));
    return {};
}

Result<void> Baseline::ask_node(Slot& slot) {
    slot.claimed = false;
    node_has_some_ = true;
    slot.begin = monotonic_now();
    return node_->launch(slot.run, slot.run_dir, slot.argv, capability_line());
}

Result<Group> Baseline::launch(Plain kind, int count, int in_flight) {
    Group out;
    int started = 0;
    const Instant begin = monotonic_now();
    Result<void> fine;
    while (fine && static_cast<int>(out.samples.size()) < count) {
        const int claimed = static_cast<int>(out.samples.size());
        if (started < count && started - claimed < in_flight) {
            Slot& slot = slots_[static_cast<size_t>(started)];
            fine = kind == Plain::node ? ask_node(slot) : start(slot, spec_of(slot, kind));
            started += fine ? 1 : 0;
        } else {
            fine = take(started, out);
        }
    }
    if (!out.samples.empty()) {
        const Instant end = monotonic_now();
        out.elapsed_us = to_us(end - begin);
    }
    auto ended = end_all(started);
    MOSAIC_TRY(std::move(fine));
    MOSAIC_TRY(std::move(ended));
    return out;
}

Result<Group> Baseline::launch_without(const std::vector<Level>& levels) {
    Slot& slot = slots_.front();
    const auto is_on = [&](Level level) {
        return std::find(levels.begin(), levels.end(), level) == levels.end();
    };
    process::SpawnSpec spec = spec_of(slot, Plain::bwrap);
    spec.argv = slot.whole;
    for (const Level level : levels) {
        spec.argv = argv_without(spec.argv, level);
    }
    spec.new_keyring = is_on(Level::keyring);
    UniqueFd program;
    if (is_on(Level::seccomp)) {
        MOSAIC_TRY_ASSIGN(program, sandbox::open_program(seccomp_.get()));
        spec.descriptors.emplace_back(program.get(), sandbox::kSeccompFd);
    }
    Group out;
    Result<void> fine = start(slot, std::move(spec));
    const int started = fine ? 1 : 0;
    while (fine && out.samples.empty()) {
        fine = take(started, out);
    }
    auto ended = end_all(started);
    MOSAIC_TRY(std::move(fine));
    MOSAIC_TRY(std::move(ended));
    return out;
}

Result<void> Baseline::take(int started, Group& out) {
    std::vector<pollfd> polls = {{listener_.get(), POLLIN, 0}};
    for (const Connection& connection : connections_) {
        polls.push_back({connection.socket.get(), POLLIN, 0});
    }
    for (int i = 0; i < started; ++i) {
        const Slot& slot = slots_[static_cast<size_t>(i)];
        polls.push_back({slot.claimed || !slot.child ? -1 : slot.child->pidfd(), POLLIN, 0});
    }
    polls.push_back({node_has_some_ ? node_->output() : -1, POLLIN, 0});
    MOSAIC_TRY(waiter_.wait(polls, monotonic_now() + kClaimTakes, "a claim of a baseline"));
    const Instant now = monotonic_now();
    const size_t known = connections_.size();
    for (size_t i = 0; i < known; ++i) {
        if (polls[1 + i].revents != 0) {
            MOSAIC_TRY(take_lines(connections_[i], now, out));
        }
    }
    if (polls.back().revents != 0) {
        return tl::unexpected<Error>(node_->problem());
    }
    for (size_t i = 1 + known; i + 1 < polls.size(); ++i) {
        if (polls[i].revents != 0) {
            return fail(Code::unavailable,
                        "a baseline's session ended before its claim; see its runner.log (--keep)");
        }
    }
    return polls[0].revents != 0 ? accept_all() : Result<void>();
}

Result<void> Baseline::accept_all() {
    while (true) {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket.valid()) {
            return errno == EAGAIN ? Result<void>() : fail_sys(errno, "accept");
        }
        connections_.push_back(
            {std::move(socket), std::make_unique<wire::LineBuffer>(limits::kFrameBytesMax)});
    }
}

Result<void> Baseline::take_lines(Connection& connection, Instant now, Group& out) {
    std::array<char, 4096> buffer{};
    const ssize_t n = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
    if (n <= 0) {
        return fail(Code::unavailable, "a baseline's session closed its connection");
    }
    connection.lines->append({buffer.data(), static_cast<size_t>(n)});
    while (const auto line = connection.lines->next()) {
        MOSAIC_TRY_ASSIGN(const auto frame, wire::decode_frame(*line));
        const auto* request = std::get_if<wire::Request>(&frame);
        if (request == nullptr || request->verb != "role.claim") {
            return fail(Code::invalid, "a baseline's session sent something else than its claim");
        }
        MOSAIC_TRY_ASSIGN(const wire::ClaimArgs claim, wire::ClaimArgs::from(request->args));
        const auto slot = std::find_if(
            slots_.begin(), slots_.end(), [&](const Slot& s) { return s.run == claim.run; });
        if (slot == slots_.end() || slot->claimed) {
            return fail(Code::invalid, "a claim of an unknown run " + claim.run);
        }
        slot->claimed = true;
        const int64_t us = to_us(now - slot->begin);
        out.samples.push_back({slot->run, us, us});
    }
    return {};
}

// The outer's death is the runner's: setpriv and the runner itself have armed that. Its connection
// closes last.
Result<void> Baseline::end_all(int started) {
    const Instant deadline = monotonic_now() + kEndTakes;
    if (std::exchange(node_has_some_, false)) {
        MOSAIC_TRY(node_->end_all());
    }
    for (int i = 0; i < started; ++i) {
        const Slot& slot = slots_[static_cast<size_t>(i)];
        if (!slot.child) {
            continue;
        }
        // The group first: before its claim a runner may not have armed that yet.
        ::kill(-slot.child->pid(), SIGKILL);
        ignore(process::signal_pidfd(slot.child->pidfd(), SIGKILL), "gone is what is wanted");
    }
    for (int i = 0; i < started; ++i) {
        Slot& slot = slots_[static_cast<size_t>(i)];
        if (!slot.child) {
            continue;
        }
        std::vector<pollfd> polls = {{slot.child->pidfd(), POLLIN, 0}};
        MOSAIC_TRY(waiter_.wait(polls, deadline, "the end of a baseline's session"));
        MOSAIC_TRY(process::reap(slot.child->pidfd()));
        slot.child.reset();
        slot.input.reset();
    }
    for (const Connection& connection : connections_) {
        ssize_t n = 1;
        while (n != 0) {
            std::vector<pollfd> polls = {{connection.socket.get(), POLLIN, 0}};
            MOSAIC_TRY(waiter_.wait(polls, deadline, "the end of a baseline's runner"));
            std::array<char, 4096> rest{};
            n = ::recv(connection.socket.get(), rest.data(), rest.size(), 0);
            if (n < 0 && errno != EAGAIN && errno != ECONNRESET) {
                return fail_sys(errno, "a baseline's connection");
            }
            n = n < 0 && errno == ECONNRESET ? 0 : n;
        }
    }
    connections_.clear();
    return {};
}

}  // namespace mosaic::bench
