#include "bench/bus.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "base/instant.h"
#include "process/pidfd.h"
#include "process/proc.h"

namespace mosaic::bench {
namespace {

constexpr Duration kReplyTakes = seconds(60);
constexpr Duration kEndTakes = seconds(10);

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        return fail(Code::too_large, path + ": too long for a socket");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

Result<UniqueFd> listen_on(const std::string& path) {
    MOSAIC_TRY_ASSIGN(const sockaddr_un address, address_of(path));
    UniqueFd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(out.get(), SOMAXCONN) != 0) {
        return fail_sys(errno, path);
    }
    return out;
}

wire::BrokerConfig config() {
    wire::BrokerConfig out;
    out.business = kBusiness;
    out.human = "jordan";
    out.roles = {{"flooder", {"message.send"}, {}, {}}, {"other", {"message.send"}, {}, {}}};
    out.launch_by = "other";
    out.launch_instances = {"flooder"};
    out.modules = {"script"};
    return out;
}

Result<wire::ProcessIdentity> identity_of(pid_t pid) {
    const auto stat = process::read_stat(pid);
    if (!stat) {
        return fail(Code::missing, "process " + std::to_string(pid) + " is gone");
    }
    return wire::ProcessIdentity{pid, stat->start_time, pid, stat->start_time};
}

}  // namespace

Result<UniqueFd> connect_to(const std::string& path) {
    MOSAIC_TRY_ASSIGN(const sockaddr_un address, address_of(path));
    UniqueFd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return fail_sys(errno, path);
    }
    return out;
}

Result<void> BusLine::send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t n =
            ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (n < 0) {
            return fail_sys(errno, "the broker");
        }
        sent += static_cast<size_t>(n);
    }
    return {};
}

Result<int64_t> BusLine::post(const std::string& verb, json::Value args, const std::string& cap) {
    const int64_t id = next_id_++;
    MOSAIC_TRY(send(wire::encode(wire::Request{id, verb, cap, std::move(args)})));
    return id;
}

Result<void> BusLine::read_more() {
    std::vector<pollfd> polls = {{socket_.get(), POLLIN, 0}};
    MOSAIC_TRY(waiter_.wait(polls, monotonic_now() + kReplyTakes, "the broker's reply"));
    std::array<char, 65536> buffer{};
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n <= 0) {
        return fail(Code::unavailable, "the broker closed the connection");
    }
    lines_.append({buffer.data(), static_cast<size_t>(n)});
    while (const auto line = lines_.next()) {
        MOSAIC_TRY_ASSIGN(auto frame, wire::decode_frame(*line));
        if (auto* reply = std::get_if<wire::Reply>(&frame)) {
            replies_[reply->id] = std::move(*reply);
        } else {
            const int64_t id = std::get<wire::Request>(frame).id;
            MOSAIC_TRY(send(wire::encode(wire::reply_ok(id, json::Object{}))));
        }
    }
    return {};
}

Result<wire::Reply> BusLine::reply(int64_t id) {
    while (replies_.count(id) == 0) {
        MOSAIC_TRY(read_more());
    }
    wire::Reply out = std::move(replies_.extract(id).mapped());
    if (!out.ok) {
        return fail(Code::unavailable,
                    "the broker refuses: " + out.error + " (" + out.message + ")");
    }
    return out;
}

Result<wire::Reply> BusLine::ask(const std::string& verb,
                                 json::Value args,
                                 const std::string& cap) {
    MOSAIC_TRY_ASSIGN(const int64_t id, post(verb, std::move(args), cap));
    return reply(id);
}

Result<std::unique_ptr<Bus>> Bus::start(const Scratch& scratch,
                                        Waiter& waiter,
                                        const std::string& program) {
    const std::string directory = scratch.plain();
    std::unique_ptr<Bus> out(new Bus(waiter, directory + "/bus.sock"));
    MOSAIC_TRY_ASSIGN(out->bus_, listen_on(out->path_));
    MOSAIC_TRY_ASSIGN(out->admin_, listen_on(directory + "/admin.sock"));
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return fail_sys(errno, "socketpair");
    }
    out->control_ = std::make_unique<BusLine>(UniqueFd(ends[0]), waiter);
    const UniqueFd theirs(ends[1]);
    const UniqueFd log(
        ::open(scratch.host_log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    process::SpawnSpec spec;
    spec.path = program;
    spec.argv = {"mosaic-broker",
                 "--store",
                 directory + "/broker.sqlite",
                 "--control-fd",
                 "3",
                 "--bus-fd",
                 "4",
                 "--admin-fd",
                 "5"};
    spec.descriptors = {
        {log.get(), 2}, {theirs.get(), 3}, {out->bus_.get(), 4}, {out->admin_.get(), 5}};
    spec.parent_death_kill = true;
    MOSAIC_TRY_ASSIGN(process::Spawned broker, process::spawn(spec));
    out->broker_.emplace(std::move(broker));
    MOSAIC_TRY(out->broker_->wait_exec());
    MOSAIC_TRY(out->control_->ask("config", config().to_value()));
    return out;
}

Bus::~Bus() {
    if (!broker_) {
        return;
    }
    control_.reset();
    waiter_.forget_signal();
    std::vector<pollfd> polls = {{broker_->pidfd(), POLLIN, 0}};
    if (!waiter_.wait(polls, monotonic_now() + kEndTakes, "the broker's end")) {
        ignore(process::signal_pidfd(broker_->pidfd(), SIGKILL), "gone is what is wanted");
        pollfd gone{broker_->pidfd(), POLLIN, 0};
        ::poll(&gone, 1, -1);
    }
    ignore(process::reap(broker_->pidfd()), "nobody asks how it ended");
}

Result<std::string> Bus::bind(const std::string& role, const std::string& run, pid_t runner) {
    wire::BindLaunchArgs args;
    args.seat = {role, ""};
    args.run = run;
    args.harness = "script";
    args.provider = "local";
    args.model = "shell";
    args.launched_by = "jordan";
    MOSAIC_TRY_ASSIGN(args.process, identity_of(runner));
    MOSAIC_TRY_ASSIGN(const wire::Reply reply, control_->ask("bindLaunch", args.to_value()));
    const json::Value* cap = reply.result.find("cap");
    if (cap == nullptr || cap->string() == nullptr) {
        return fail(Code::invalid, "bindLaunch gave no capability");
    }
    return *cap->string();
}

Result<void> Bus::end(const std::string& role, const std::string& run, pid_t runner) {
    wire::EndLaunchArgs args;
    args.seat = {role, ""};
    args.run = run;
    args.reason = EndReason::stopped;
    args.exit_code = 0;
    args.harness = "script";
    MOSAIC_TRY_ASSIGN(args.process, identity_of(runner));
    MOSAIC_TRY(control_->ask("endLaunch", args.to_value()));
    return {};
}

}  // namespace mosaic::bench
