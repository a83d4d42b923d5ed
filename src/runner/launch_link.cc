#include "runner/launch_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "runner/log.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace mosaic::runner {
namespace {

constexpr size_t kReadBytes = size_t{4} * 1024;
constexpr std::string_view kEmptyCapability = "{\"cap\":\"\",";

// The peer has closed and nothing is left to read.
bool hung_up(int fd) {
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

// The request's line as Outbox wants it: it puts the capability in itself.
std::string without_capability(const Seat& seat) {
    const std::string line = wire::encode(wire::LaunchRequest{"", seat});
    MOSAIC_ASSERT(line.starts_with(kEmptyCapability));
    return "{" + line.substr(kEmptyCapability.size());
}

Result<LaunchLink::Answer> decode(const std::string& line) {
    MOSAIC_TRY_ASSIGN(const json::Value value, json::parse(line, {limits::kWireDepthMax}));
    json::Reader r(value, "launch.sock");
    LaunchLink::Answer out;
    out.ok = r.boolean("ok");
    if (out.ok) {
        const json::Value* result = r.object("result");
        out.result = result != nullptr ? *result : json::Value();
    } else {
        out.error = r.string("error");
        const std::string decision = r.string_or("decision", "");
        const std::string message = r.string_or("message", "");
        out.error += decision.empty() ? "" : ": " + decision;
        out.error += message.empty() ? "" : ": " + message;
    }
    MOSAIC_TRY(r.done());
    return out;
}

}  // namespace

LaunchLink::LaunchLink(const std::string& path, const CapabilityPage& capability)
    : capability_(capability), path_(path), input_(limits::kLaunchLineBytesMax) {}

void LaunchLink::prepare() {
    if (!allowed()) {
        return;
    }
    if (auto taken = path_.take(); !taken) {
        log_line("no launches: " + taken.error().text);
    }
}

void LaunchLink::request(uint64_t token, const Seat& seat) {
    if (fd_.valid() && hung_up(fd_.get())) {
        lose("it closed the connection");
    }
    waiting_.push_back(token);
    if (!fd_.valid()) {
        auto connected = path_.connect();
        if (!connected) {
            lose(connected.error().text);
            return;
        }
        fd_ = std::move(*connected);
    }
    outbox_.push(without_capability(seat));
    flush();
}

void LaunchLink::add_to(PollSet& polls) const {
    polls.add(fd_.get(), outbox_.empty() ? POLLIN : POLLIN | POLLOUT);
}

void LaunchLink::work(const PollSet& polls) {
    if (!fd_.valid()) {
        return;
    }
    const short ready = polls.ready(fd_.get());
    if ((ready & POLLOUT) != 0) {
        flush();
    }
    if (fd_.valid() && (ready & ~POLLOUT) != 0) {
        read();
    }
}

std::vector<LaunchLink::Answer> LaunchLink::take_answers() {
    return std::exchange(answers_, {});
}

void LaunchLink::flush() {
    if (auto sent = outbox_.flush(fd_.get(), capability_.view()); !sent) {
        lose(sent.error().text);
    }
}

void LaunchLink::read() {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): recv fills it
    std::array<char, kReadBytes> bytes;
    const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        lose(n == 0 ? "it closed the connection" : errno_text(errno));
        return;
    }
    input_.append({bytes.data(), static_cast<size_t>(n)});
    while (fd_.valid()) {
        const auto line = input_.next();
        if (!line) {
            break;
        }
        take_line(*line);
    }
    if (input_.overlong()) {
        lose("it sent a line past the limit");
    }
}

void LaunchLink::take_line(const std::string& line) {
    auto answer = decode(line);
    if (!answer || waiting_.empty()) {
        lose(answer ? "it answered what nobody asked" : answer.error().text);
        return;
    }
    answer->token = waiting_.front();
    waiting_.pop_front();
    answers_.push_back(std::move(*answer));
}

void LaunchLink::lose(const std::string& why) {
    fd_.reset();
    input_.wipe_all();
    outbox_.clear();
    for (const uint64_t token : waiting_) {
        answers_.push_back({token, false, {}, "host-unavailable: " + why});
    }
    waiting_.clear();
}

}  // namespace mosaic::runner
