#include "runner/mcp_server.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "process/files.h"
#include "runner/log.h"
#include "runner/mcp.h"
#include "runner/poll_set.h"
#include "runner/tool_socket.h"
#include "wire/codes.h"
#include "wire/limits.h"
#include "wire/lines.h"

namespace mosaic::runner {
namespace {

constexpr uint64_t kToolsBytesMax = uint64_t{1024} * 1024;
// Fewer than the session takes, so that the turn's shell finds room, too.
constexpr size_t kCallsMax = limits::kToolClientsMax - 4;
// Calls that wait for one of those; then reading stops.
constexpr size_t kQueuedMax = 64;
constexpr size_t kOutBytesMax = limits::kFrameBytesMax;
constexpr Duration kConnectAgain = milliseconds(50);
// For calls under way once the input has ended.
constexpr Duration kDrain = seconds(2);
// After poll(2) a pipe takes this much without blocking (PIPE_BUF, pipe(7)); standard output is
// not ours to make non-blocking.
constexpr size_t kWriteBytes = 4096;

// One call on its way through tools.sock.
struct Call {
    McpCall call;
    UniqueFd fd;
    size_t sent = 0;
    wire::LineBuffer in{limits::kFrameBytesMax};
    bool over = false;
};

class McpServer {
  public:
    McpServer(McpOffer offer, UniqueFd signals)
        : offer_(std::move(offer)), signals_(std::move(signals)) {}

    int run() {
        while (!exit_code_) {
            round();
        }
        return *exit_code_;
    }

  private:
    void round();
    void start_calls(Instant now);
    void add_to_polls();
    void write_out();
    void read_in(Instant now);
    void take_lines(Instant now);
    void take(McpStep step);
    void cancel(const json::Value& id);
    void work_on(Call& call, short ready);
    void end_input(Instant now, int exit_code);
    [[nodiscard]] bool reads() const;

    McpOffer offer_;
    UniqueFd signals_;
    PollSet polls_;
    wire::LineBuffer in_{limits::kFrameBytesMax};
    std::string out_;
    std::deque<McpCall> queued_;
    std::vector<std::unique_ptr<Call>> calls_;
    std::optional<Instant> connect_at_;
    std::optional<Instant> end_at_;  // the input has ended
    int end_code_ = exit_code::kFine;
    std::optional<int> exit_code_;
};

bool McpServer::reads() const {
    return !end_at_ && queued_.size() < kQueuedMax && out_.size() < kOutBytesMax;
}

void McpServer::round() {
    start_calls(monotonic_now());
    add_to_polls();
    polls_.wait(earlier(connect_at_, end_at_));

    const Instant now = monotonic_now();
    if (polls_.ready(signals_.get()) != 0) {
        exit_code_ = exit_code::kFine;
        return;
    }
    if ((polls_.ready(STDOUT_FILENO) & (POLLERR | POLLNVAL)) != 0) {
        exit_code_ = exit_code::kFine;  // nobody reads
        return;
    }
    if ((polls_.ready(STDOUT_FILENO) & POLLOUT) != 0) {
        write_out();
    }
    if (polls_.ready(STDIN_FILENO) != 0) {
        read_in(now);
    }
    for (const auto& call : calls_) {
        work_on(*call, polls_.ready(call->fd.get()));
    }
    std::erase_if(calls_, [](const auto& call) { return call->over; });
    // What came in one piece with more than may be in hand.
    take_lines(now);
    const bool idle = queued_.empty() && calls_.empty() && out_.empty();
    if (end_at_ && (idle || now >= *end_at_)) {
        exit_code_ = end_code_;
    }
}

void McpServer::add_to_polls() {
    polls_.clear();
    polls_.add(signals_.get(), POLLIN);
    polls_.add(STDOUT_FILENO, out_.empty() ? 0 : POLLOUT);
    if (reads()) {
        polls_.add(STDIN_FILENO, POLLIN);
    }
    for (const auto& call : calls_) {
        polls_.add(call->fd.get(), call->sent < call->call.line.size() ? POLLIN | POLLOUT : POLLIN);
    }
}

void McpServer::start_calls(Instant now) {
    if (connect_at_ && now < *connect_at_) {
        return;
    }
    connect_at_.reset();
    while (!queued_.empty() && calls_.size() < kCallsMax) {
        auto fd = try_tool_socket();
        if (!fd && fd.error().sys == EAGAIN) {
            connect_at_ = now + kConnectAgain;
            return;
        }
        McpCall call = std::move(queued_.front());
        queued_.pop_front();
        if (!fd) {
            out_ += mcp_failed(call.id, "the session can't be reached: " + fd.error().text);
            continue;
        }
        auto started = std::make_unique<Call>();
        started->call = std::move(call);
        started->fd = std::move(*fd);
        calls_.push_back(std::move(started));
    }
}

void McpServer::write_out() {
    const ssize_t n = ::write(STDOUT_FILENO, out_.data(), std::min(out_.size(), kWriteBytes));
    if (n > 0) {
        out_.erase(0, static_cast<size_t>(n));
    } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
        exit_code_ = exit_code::kFine;
    }
}

void McpServer::read_in(Instant now) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 65536> bytes;
    const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n > 0) {
        in_.append({bytes.data(), static_cast<size_t>(n)});
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        in_.append("\n");  // a last line may lack it
        end_input(now, exit_code::kFine);
    }
}

void McpServer::take_lines(Instant now) {
    while (queued_.size() < kQueuedMax && out_.size() < kOutBytesMax) {
        const auto line = in_.next();
        if (!line) {
            break;
        }
        if (!line->empty()) {
            take(take_mcp_line(*line, offer_));
        }
    }
    if (in_.overlong() && !end_at_) {
        out_ += mcp_unreadable("a line of more than " + std::to_string(limits::kFrameBytesMax) +
                               " bytes");
        end_input(now, exit_code::kFailed);
    }
}

void McpServer::take(McpStep step) {
    if (auto* const answer = std::get_if<McpAnswer>(&step)) {
        out_ += answer->line;
    } else if (auto* const call = std::get_if<McpCall>(&step)) {
        queued_.push_back(std::move(*call));
    } else {
        cancel(std::get<McpCancel>(step).id);
    }
}

// The session sees the connection end; what it has begun may be done all the same.
void McpServer::cancel(const json::Value& id) {
    std::erase_if(queued_, [&](const McpCall& call) { return call.id == id; });
    std::erase_if(calls_, [&](const auto& call) { return call->call.id == id; });
}

void McpServer::work_on(Call& call, short ready) {
    if ((ready & POLLOUT) != 0) {
        const ssize_t n = ::send(call.fd.get(),
                                 call.call.line.data() + call.sent,
                                 call.call.line.size() - call.sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        call.sent += n > 0 ? static_cast<size_t>(n) : 0;
    }
    if ((ready & (POLLIN | POLLHUP | POLLERR)) == 0) {
        return;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): recv fills it
    std::array<char, 65536> bytes;
    const ssize_t n = ::recv(call.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        call.in.append({bytes.data(), static_cast<size_t>(n)});
    }
    if (const auto line = call.in.next()) {
        out_ += mcp_called(call.call.id, *line);
        call.over = true;
    } else if (n <= 0 || call.in.overlong()) {
        out_ += mcp_failed(call.call.id,
                           "the session ended the connection without an answer; the call may have "
                           "been carried out");
        call.over = true;
    }
}

void McpServer::end_input(Instant now, int exit_code) {
    end_at_ = now + kDrain;
    end_code_ = exit_code;
}

Result<UniqueFd> take_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    // One that is ignored is dropped even while it is blocked.
    ::signal(SIGTERM, SIG_DFL);  // NOLINT(cert-err33-c): these can't fail
    ::signal(SIGINT, SIG_DFL);   // NOLINT(cert-err33-c)
    ::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
    UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.valid()) {
        return fail_sys(errno, "signalfd");
    }
    return fd;
}

Result<std::vector<McpTool>> load_tools(const char* file) {
    std::string path = file != nullptr ? file : "";
    if (path.empty()) {
        const char* const bundle = std::getenv("MOSAIC_BUNDLE");
        if (bundle == nullptr || *bundle == '\0') {
            return fail(Code::missing, "no tools.json: MOSAIC_BUNDLE isn't set");
        }
        path = std::string(bundle) + "/tools.json";
    }
    MOSAIC_TRY_ASSIGN(const std::string text, process::read_file(path, kToolsBytesMax));
    return parse_mcp_tools(text, path);
}

Result<int> serve(const char* file, const std::string& version) {
    // Before the working directory changes: the file may be named by a relative path.
    MOSAIC_TRY_ASSIGN(auto tools, load_tools(file));
    MOSAIC_TRY(enter_tool_directory());
    MOSAIC_TRY_ASSIGN(auto signals, take_signals());
    return McpServer({std::move(tools), version}, std::move(signals)).run();
}

}  // namespace

int run_mcp(const char* file, const std::string& version) {
    const auto served = serve(file, version);
    if (!served) {
        log_line(served.error().text);
        return exit_code::kFailed;
    }
    return *served;
}

}  // namespace mosaic::runner
