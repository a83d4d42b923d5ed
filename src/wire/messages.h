#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "wire/codes.h"
#include "wire/json.h"

// The messages of bus.sock, admin.sock and the host's control pair: one set of types for host,
// broker, runner, commands and tests. docs/protocol.md has the same in prose, with examples.
//
// Each argument struct has `from`, which checks the shape and refuses unknown keys, and
// `to_value`, which encodes it; from(to_value(x)) == x.

namespace mosaic::wire {

// One line: a request in either direction...
struct Request {
    int64_t id = 0;
    std::string verb;
    std::string cap;   // empty: none. Wipe it once it was looked at.
    json::Value args;  // an object
};

// ...or the reply to the request of the same id.
struct Reply {
    int64_t id = 0;
    bool ok = false;
    json::Value result;    // when ok
    std::string error;     // a code, when not ok
    std::string message;   // for people, when not ok; may be empty
    std::string decision;  // with decision-required: the decision's id
};

// One line without its newline.
[[nodiscard]] Result<std::variant<Request, Reply>> decode_frame(std::string_view line);

// With the newline.
[[nodiscard]] std::string encode(const Request& request);
[[nodiscard]] std::string encode(const Reply& reply);

[[nodiscard]] Reply reply_ok(int64_t id, json::Value result);
[[nodiscard]] Reply reply_error(int64_t id, std::string_view code, std::string message);

// A line on launch.sock: {"cap","instance","thread"?}.
struct LaunchRequest {
    std::string cap;
    Seat seat;
};

// The error's text says which part is wrong; the caller answers bad-request.
[[nodiscard]] Result<LaunchRequest> decode_launch_request(std::string_view line);
[[nodiscard]] std::string encode(const LaunchRequest& request);

struct LaunchResult {
    std::string run;
    std::string instance;
    std::string harness;
    std::string model;

    bool operator==(const LaunchResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<LaunchResult> from(const json::Value& value);
};

// {"ok":true,"result":...}; a session gets refusals as the code alone, with the decision's id for
// decision-required. `message` is for the human only: empty leaves it out.
[[nodiscard]] std::string encode_launch_reply(const LaunchResult& result);
[[nodiscard]] std::string encode_launch_refusal(Refusal code,
                                                std::string_view decision,
                                                std::string_view message);

// The line on a runner's stdin.
struct CapabilityLine {
    std::string cap;
    std::string launched_by;
};

[[nodiscard]] std::string encode(const CapabilityLine& line);
[[nodiscard]] Result<CapabilityLine> decode_capability_line(std::string_view line);

// Who a run is to the kernel. Start times are field 22 of /proc/PID/stat, as text.
struct ProcessIdentity {
    int64_t pid = 0;  // the outer bwrap
    std::string start_time;
    int64_t runner_pid = 0;  // mosaic-runner
    std::string runner_start_time;

    bool operator==(const ProcessIdentity&) const = default;
};

// ---- host to broker ----

// config: all that the broker decides by, whole, at start and after each change.
struct RoleAuthority {
    std::string role;  // an instance
    std::vector<std::string> within_role;
    std::vector<std::string> cross_role;
    std::vector<std::string> gated;

    bool operator==(const RoleAuthority&) const = default;
};

// What changed, for the event that a new configuration becomes. `fields` are the event's own.
struct ConfigNews {
    std::string event;  // one of kConfigEvents
    json::Value fields;

    bool operator==(const ConfigNews&) const = default;
};

constexpr std::array<std::string_view, 5> kConfigEvents = {
    "routes.changed", "limits.changed", "instances.changed", "plugins.changed", "config.reloaded"};

struct BrokerConfig {
    std::string business;
    std::string human;
    std::vector<RoleAuthority> roles;
    std::string launch_by;                      // empty: no launch block
    std::vector<std::string> launch_instances;  // may be launched by launch_by
    std::vector<std::string> modules;           // harness modules switched on
    std::optional<ConfigNews> news{};           // nothing: the first one of a host

    bool operator==(const BrokerConfig&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<BrokerConfig> from(const json::Value& value);
};

// authorizeLaunch: may this session launch this seat now? (The human always may.) The reply is ok
// with an empty object, or launch-revoked, not-authorized or decision-required with the decision's
// id.
struct AuthorizeLaunchArgs {
    Seat caller;
    std::string caller_run;
    Seat target;

    bool operator==(const AuthorizeLaunchArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<AuthorizeLaunchArgs> from(const json::Value& value);
};

// bindLaunch: records the run and mints its capability. Reply {"cap"}; or `refused` when the run is
// recorded differently, has claimed or ended, or its module is unknown.
struct BindLaunchArgs {
    Seat seat;
    std::string run;
    std::string harness;
    std::string provider;
    std::string model;
    std::string launched_by;
    std::string transcript;  // path, may be empty
    ProcessIdentity process;

    bool operator==(const BindLaunchArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<BindLaunchArgs> from(const json::Value& value);
};

// endLaunch: the run is over; releases its role, kills its capability, records session.ended.
// Creates a run it has never heard of, never refuses, and answers a second call with what the first
// one recorded. Reply {"reason","exitCode","signal","detail","first": whether this call recorded
// it}.
struct EndLaunchArgs {
    Seat seat;
    std::string run;
    EndReason reason = EndReason::failed;
    std::optional<int64_t> exit_code;
    std::string signal;  // "SIGKILL"; empty: none
    std::string detail;  // empty: none
    ProcessIdentity process;
    std::string harness;

    bool operator==(const EndLaunchArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<EndLaunchArgs> from(const json::Value& value);
};

struct EndLaunchResult {
    EndReason reason = EndReason::failed;
    std::optional<int64_t> exit_code;
    std::string signal;
    std::string detail;
    bool first = false;

    bool operator==(const EndLaunchResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<EndLaunchResult> from(const json::Value& value);
};

// refuse: records an action.refused event for a launch that the host refused. Reply {}.
struct RefuseArgs {
    Seat seat;
    std::string code;
    std::string reason;
    std::string by;  // the caller's instance, or the human

    bool operator==(const RefuseArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<RefuseArgs> from(const json::Value& value);
};

// bound: the runs that are bound and not ended, and which of `runs` the store has ever known.
struct BoundArgs {
    std::vector<std::string> runs;

    bool operator==(const BoundArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<BoundArgs> from(const json::Value& value);
};

struct BoundRun {
    Seat seat;
    std::string run;
    std::string harness;
    ProcessIdentity process;
    bool claimed = false;

    bool operator==(const BoundRun&) const = default;
};

struct BoundResult {
    std::vector<BoundRun> bound;
    std::vector<std::string> known;

    bool operator==(const BoundResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<BoundResult> from(const json::Value& value);
};

// ---- broker to host ----

// claimed, released: {"run"}; the host answers {}.
struct RunArgs {
    std::string run;

    bool operator==(const RunArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<RunArgs> from(const json::Value& value);
};

// needed: a session needs the human. Told once or more for each; the host answers {}.
struct NeedArgs {
    enum class What : uint8_t {
        decision,  // waits for `mosaic decide`
        message,   // lies in `mosaic inbox`
    };
    What what = What::decision;
    std::string id;  // d12, m7
    std::string by;  // the role, and its thread

    bool operator==(const NeedArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<NeedArgs> from(const json::Value& value);
};

[[nodiscard]] std::string_view to_string(NeedArgs::What what);

// launch: the human's, from admin.sock. The reply is a LaunchResult, or an error whose code is a
// Refusal with the reason as its message.
struct HumanLaunchArgs {
    Seat seat;

    bool operator==(const HumanLaunchArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<HumanLaunchArgs> from(const json::Value& value);
};

// stop: the human's. `target` is a run id or an instance (with its thread). The reply is
// {"stopped":true,"business","instance","run"} or {"stopped":false,"reason"}, or an error.
struct StopArgs {
    std::string target;
    std::string thread;
    int64_t timeout_ms = 10'000;  // from SIGTERM to SIGKILL, at most kStopTimeoutMsMax

    bool operator==(const StopArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<StopArgs> from(const json::Value& value);
};

// ---- sessions and the human ----

enum class MessageClass {
    request,
    reply,
    note,
};

[[nodiscard]] std::string_view to_string(MessageClass message_class);  // "REQUEST", ...

// message.send. Reply {"id"}.
struct MessageSendArgs {
    Seat to;  // a role (with its thread), or the human's name
    MessageClass message_class = MessageClass::request;
    std::string body;
    std::string in_reply_to;  // empty: none
    // A session's own word for this message, of at most kSendKeyBytesMax bytes; empty: none. Sent
    // again with the same key by the same run it is the same message, and is stored once.
    std::string key{};

    bool operator==(const MessageSendArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<MessageSendArgs> from(const json::Value& value);
};

// message.receive. Without `wait` the reply comes at once and `message` is null when there is none;
// with it the reply comes when there is one. With in_reply_to only that message, which is acked by
// being delivered.
struct MessageReceiveArgs {
    bool wait = false;
    std::string in_reply_to;

    bool operator==(const MessageReceiveArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<MessageReceiveArgs> from(const json::Value& value);
};

struct Message {
    std::string id;
    std::string from;  // a role or the human
    std::string from_thread;
    MessageClass message_class = MessageClass::request;
    std::string body;
    std::string at;  // when it was sent, ISO 8601
    std::string in_reply_to;

    bool operator==(const Message&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<Message> from_value(const json::Value& value,
                                                    const std::string& pointer);
};

// The facts that open a turn's request text.
struct StateFacts {
    std::string read_at;  // ISO 8601
    bool launches_allowed = true;
    std::string launches_switched_at;  // empty: never switched
    int64_t open_tasks = 0;            // of the reader's role, open or doing

    bool operator==(const StateFacts&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<StateFacts> from_value(const json::Value& value,
                                                       const std::string& pointer);
};

struct MessageReceiveResult {
    std::optional<Message> message;
    StateFacts state;

    bool operator==(const MessageReceiveResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<MessageReceiveResult> from(const json::Value& value);
};

// message.ack {"id"}. Reply {}.
struct MessageAckArgs {
    std::string id;

    bool operator==(const MessageAckArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<MessageAckArgs> from(const json::Value& value);
};

// role.claim {"run"}. Reply {"business","instance","thread"?,"run"}. Idempotent for the same run.
struct ClaimArgs {
    std::string run;

    bool operator==(const ClaimArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<ClaimArgs> from(const json::Value& value);
};

// decide: the human's answer to a decision. Reply {"id","allowed"}. `note` goes along with the
// answer to a decision that a session asked for by decision.request.
struct DecideArgs {
    std::string id;
    bool allow = false;
    std::string note{};  // may be empty

    bool operator==(const DecideArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<DecideArgs> from(const json::Value& value);
};

// events. Reply {"events":[{"seq","at","type",...}],"next": the `since` of the next call}. With
// `follow` and nothing newer than `since` the reply waits for the next event. `last` leaves out all
// but so many of the newest; 0: none.
struct EventsArgs {
    int64_t since = 0;
    bool follow = false;
    int64_t last = 0;

    bool operator==(const EventsArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<EventsArgs> from(const json::Value& value);
};

}  // namespace mosaic::wire
