#include "bench/product.h"

#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <variant>

#include "base/instant.h"
#include "bench/sessions.h"
#include "process/files.h"
#include "wire/limits.h"

namespace mosaic::bench {
namespace {

constexpr Duration kReplyTakes = seconds(90);
constexpr int kStopsInFlight = 16;
constexpr uint64_t kLogBytesMax = uint64_t{256} * 1024 * 1024;

}  // namespace

Result<void> Product::connect() {
    const std::string path = scratch_.data() + "/bus-host/admin.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return fail(Code::too_large, path + ": too long for a socket");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
        0) {
        return fail_sys(errno, path);
    }
    return {};
}

// Requests are far smaller than the socket's buffer, and few are outstanding: this doesn't block.
Result<void> Product::send(const std::string& verb, json::Value args) {
    wire::Request request;
    request.id = next_id_++;
    request.verb = verb;
    request.args = std::move(args);
    const std::string line = wire::encode(request);
    for (size_t sent = 0; sent < line.size();) {
        const ssize_t n =
            ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
        if (n < 0) {
            return fail_sys(errno, "admin.sock");
        }
        sent += static_cast<size_t>(n);
    }
    return {};
}

Result<wire::Reply> Product::receive(const char* what) {
    const Instant deadline = monotonic_now() + kReplyTakes;
    while (true) {
        if (const auto line = lines_.next()) {
            MOSAIC_TRY_ASSIGN(auto frame, wire::decode_frame(*line));
            auto* reply = std::get_if<wire::Reply>(&frame);
            if (reply == nullptr) {
                return fail(Code::invalid, "admin.sock: expected a reply, got " + *line);
            }
            if (!reply->ok) {
                return fail(Code::unavailable,
                            std::string(what) + ": " + reply->error + " (" + reply->message + ")");
            }
            return std::move(*reply);
        }
        std::vector<pollfd> polls = {{socket_.get(), POLLIN, 0}};
        MOSAIC_TRY(waiter_.wait(polls, deadline, what));
        std::array<char, 65536> buffer{};
        const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (n <= 0) {
            return fail(Code::unavailable, "admin.sock: the broker closed the connection");
        }
        lines_.append({buffer.data(), static_cast<size_t>(n)});
    }
}

Result<Group> Product::launch(int first, int count, int in_flight) {
    Group out;
    std::map<int64_t, Instant> asked;
    const Instant begin = monotonic_now();
    Instant now = begin;
    int next = first;
    while (static_cast<int>(out.samples.size()) < count) {
        while (next < first + count && static_cast<int>(asked.size()) < in_flight) {
            json::Value args;
            args.set("instance", seat_name(next++));
            asked[next_id_] = monotonic_now();
            MOSAIC_TRY(send("launch", std::move(args)));
        }
        MOSAIC_TRY_ASSIGN(const wire::Reply reply, receive("launch"));
        now = monotonic_now();
        MOSAIC_TRY_ASSIGN(const wire::LaunchResult result, wire::LaunchResult::from(reply.result));
        out.samples.push_back({result.run, 0, to_us(now - asked[reply.id])});
        asked.erase(reply.id);
    }
    out.elapsed_us = to_us(now - begin);
    return out;
}

Result<void> Product::stop(int first, int count) {
    int asked = 0;
    for (int stopped = 0; stopped < count; ++stopped) {
        while (asked < count && asked - stopped < kStopsInFlight) {
            wire::StopArgs args;
            args.target = seat_name(first + asked++);
            MOSAIC_TRY(send("stop", args.to_value()));
        }
        MOSAIC_TRY(receive("stop"));
    }
    return {};
}

template <class Done>
Result<void> Product::wait_sessions(const char* what, Done done) {
    const UniqueFd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const std::string directory = scratch_.data() + "/bus-host";
    if (!changes.valid() ||
        ::inotify_add_watch(changes.get(), directory.c_str(), IN_MOVED_TO) < 0) {
        return fail_sys(errno, directory);
    }
    const Instant deadline = monotonic_now() + kReplyTakes;
    while (true) {
        MOSAIC_TRY_ASSIGN(const std::vector<Session> sessions, read_sessions(scratch_));
        if (done(sessions)) {
            return {};
        }
        std::vector<pollfd> polls = {{changes.get(), POLLIN, 0}};
        MOSAIC_TRY(waiter_.wait(polls, deadline, what));
        std::array<char, 4096> events{};
        while (::read(changes.get(), events.data(), events.size()) > 0) {
        }
    }
}

Result<void> Product::wait_warm(int first, int count) {
    std::set<std::string> warm;
    MOSAIC_TRY(wait_sessions("a warm seat", [&](const std::vector<Session>& sessions) {
        warm.clear();
        for (const Session& session : sessions) {
            if (session.warm) {
                warm.insert(session.instance);
            }
        }
        int missing = 0;
        for (int i = first; i < first + count; ++i) {
            missing += warm.contains(seat_name(i)) ? 0 : 1;
        }
        return missing == 0;
    }));
    // The entry is there a moment before its seat may be taken: until the directory is synced.
    const std::string counted = "\nmosaic_sessions{state=\"warm\"} ";
    while (true) {
        MOSAIC_TRY_ASSIGN(const std::string text, metrics());
        const size_t at = text.find(counted);
        if (at == std::string::npos) {
            return fail(Code::invalid, "metrics: no count of warm sessions");
        }
        if (std::strtoull(text.c_str() + at + counted.size(), nullptr, 10) >= warm.size()) {
            return {};
        }
    }
}

Result<void> Product::wait_none() {
    return wait_sessions("the sessions' end",
                         [](const std::vector<Session>& sessions) { return sessions.empty(); });
}

Result<std::string> Product::metrics() {
    MOSAIC_TRY(send("metrics", json::Object{}));
    MOSAIC_TRY_ASSIGN(const wire::Reply reply, receive("metrics"));
    const json::Value* text = reply.result.find("text");
    if (text == nullptr || text->string() == nullptr) {
        return fail(Code::invalid, "metrics: the reply has another shape");
    }
    return *text->string();
}

const std::vector<std::string>& Product::stage_names() {
    static const std::vector<std::string> names = {"checked",
                                                   "authorized",
                                                   "prepared",
                                                   "spawned",
                                                   "bound",
                                                   "persisted",
                                                   "delivered",
                                                   "claimed"};
    return names;
}

Result<std::map<std::string, Product::Stages>> Product::read_stages() const {
    const std::string path = scratch_.data() + "/launches/" + kBusiness + ".jsonl";
    MOSAIC_TRY_ASSIGN(const std::string text, process::read_file(path, kLogBytesMax));
    std::map<std::string, Stages> out;
    for (size_t start = 0, end = 0; (end = text.find('\n', start)) != std::string::npos;
         start = end + 1) {
        MOSAIC_TRY_ASSIGN(const json::Value line,
                          json::parse(std::string_view(text).substr(start, end - start)));
        const json::Value* event = line.find("event");
        const json::Value* run = line.find("run");
        const json::Value* stages = line.find("stages");
        if (event == nullptr || *event != json::Value("launch") || run == nullptr ||
            stages == nullptr || run->string() == nullptr) {
            continue;
        }
        Stages& one = out[*run->string()];
        for (const std::string& name : stage_names()) {
            const json::Value* at = stages->find(name);
            if (at == nullptr || at->integer() == nullptr) {
                return fail(Code::invalid, path + ": a launch line without /stages/" + name);
            }
            one.at.push_back(*at->integer());
        }
    }
    return out;
}

}  // namespace mosaic::bench
