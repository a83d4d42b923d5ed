#include "runner/bus.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runner/log.h"
#include "wire/codes.h"
#include "wire/limits.h"

namespace mosaic::runner {
namespace {

constexpr size_t kReadBytes = size_t{16} * 1024;

}  // namespace

int64_t wait_after_losses_ms(int64_t losses) {
    return std::min<int64_t>(int64_t{100} << std::min<int64_t>(losses - 1, 5), 2000);
}

int64_t wait_for_room_ms(int64_t looks) {
    return std::min<int64_t>(int64_t{10} << std::min<int64_t>(looks - 1, 7), 1000);
}

Bus::Bus(Options options, const CapabilityPage& capability)
    : options_(std::move(options)),
      capability_(capability),
      path_(options_.path),
      input_(limits::kFrameBytesMax) {}

int64_t Bus::request(std::string verb, json::Value args) {
    const int64_t id = next_id_++;
    if (verb == "message.send") {
        // Known by it when it has to be sent again; ids are used once in a run's life.
        args.set("key", std::to_string(id));
    }
    if (state_ == State::claimed) {
        send(id, verb, args);
    }
    unanswered_.emplace(id, Request{std::move(verb), std::move(args)});
    return id;
}

void Bus::work(Instant now) {
    if (state_ == State::apart && now >= attempt_at_) {
        connect(now);
    }
    flush(now);
}

std::optional<Instant> Bus::next_attempt() const {
    if (state_ != State::apart) {
        return std::nullopt;
    }
    return attempt_at_;
}

void Bus::add_to(PollSet& polls) const {
    polls.add(fd_.get(), outbox_.empty() ? POLLIN : POLLIN | POLLOUT);
}

std::vector<wire::Reply> Bus::read(const PollSet& polls, Instant now) {
    std::vector<wire::Reply> out;
    if (!fd_.valid() || (polls.ready(fd_.get()) & ~POLLOUT) == 0) {
        return out;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): recv fills it
    std::array<char, kReadBytes> bytes;
    const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return out;
    }
    if (n <= 0) {
        lose(now, n == 0 ? "it closed the connection" : errno_text(errno));
        return out;
    }
    input_.append({bytes.data(), static_cast<size_t>(n)});
    while (fd_.valid()) {
        const auto line = input_.next();
        if (!line) {
            break;
        }
        take_line(*line, now, out);
    }
    if (input_.overlong()) {
        lose(now, "it sent a line past the limit");
    }
    return out;
}

void Bus::connect(Instant now) {
    auto taken = path_.take();
    if (!taken) {
        lose(now, taken.error().text);
        return;
    }
    auto connected = path_.connect();
    if (!connected && connected.error().sys == EAGAIN) {
        wait_for_room(now);
        return;
    }
    if (!connected) {
        lose(now, connected.error().text);
        return;
    }
    fd_ = std::move(*connected);
    full_looks_ = 0;
    state_ = State::claiming;
    claim_id_ = next_id_++;
    send(claim_id_, "role.claim", wire::ClaimArgs{options_.run}.to_value());
}

// Another session may fill the queue again and again. The broker is there and takes from it, so it
// is no failure, and who looks often finds room. It may also hang, though, and then all wait here.
void Bus::wait_for_room(Instant now) {
    ++full_looks_;
    attempt_at_ = now + milliseconds(wait_for_room_ms(full_looks_));
    if (full_looks_ == 1) {
        log_line("the broker's queue of connections is full; waiting for room");
    }
}

void Bus::flush(Instant now) {
    if (!fd_.valid() || outbox_.empty()) {
        return;
    }
    if (auto sent = outbox_.flush(fd_.get(), capability_.view()); !sent) {
        lose(now, sent.error().text);
    }
}

void Bus::lose(Instant now, const std::string& why) {
    fd_.reset();
    input_.wipe_all();
    outbox_.clear();
    ++failures_;
    problem_ = "the broker can't be reached: " + why;
    if (failures_ > options_.retries_max) {
        state_ = State::exhausted;
        return;
    }
    const int64_t wait_ms = wait_after_losses_ms(failures_);
    state_ = State::apart;
    attempt_at_ = now + milliseconds(wait_ms);
    log_line(problem_ + "; trying again in " + std::to_string(wait_ms) + " ms");
}

void Bus::send(int64_t id, const std::string& verb, const json::Value& args) {
    outbox_.push(wire::encode(wire::Request{id, verb, "", args}));
}

void Bus::take_line(const std::string& line, Instant now, std::vector<wire::Reply>& out) {
    auto frame = wire::decode_frame(line);
    if (!frame || !std::holds_alternative<wire::Reply>(*frame)) {
        lose(now, frame ? "it sent a request" : "it sent a bad frame: " + frame.error().text);
        return;
    }
    auto& reply = std::get<wire::Reply>(*frame);
    if (state_ == State::claiming) {
        if (reply.id == claim_id_) {
            take_claim(reply, now);
        }
        return;
    }
    if (unanswered_.erase(reply.id) == 0) {
        log_line("the broker answered a request that nobody made");
        return;
    }
    out.push_back(std::move(reply));
}

void Bus::take_claim(const wire::Reply& reply, Instant now) {
    if (!reply.ok && reply.error == to_string(BusError::storage_unavailable)) {
        lose(now, "it has no storage for the claim");
        return;
    }
    if (!reply.ok) {
        problem_ = "the claim was refused: " + reply.error +
                   (reply.message.empty() ? "" : " (" + reply.message + ")");
        state_ = State::refused;
        fd_.reset();
        return;
    }
    state_ = State::claimed;
    failures_ = 0;
    ++claims_;
    if (claims_ > 1) {
        log_line("the broker is back, the role is claimed again");
    }
    for (const auto& [id, request] : unanswered_) {
        send(id, request.verb, request.args);
    }
}

}  // namespace mosaic::runner
