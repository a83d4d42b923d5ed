#include "wire/messages.h"

#include <algorithm>
#include <array>

#include "wire/limits.h"

namespace mosaic::wire {
namespace {

using json::Array;
using json::Object;
using json::Reader;
using json::Value;

constexpr int64_t kPidMax = 4'194'304;  // PID_MAX_LIMIT, proc(5)
constexpr std::array<std::string_view, 3> kMessageClassText = {"REQUEST", "REPLY", "NOTE"};

Value string_array(const std::vector<std::string>& strings) {
    Array out;
    for (const std::string& s : strings) {
        out.emplace_back(s);
    }
    return Value(std::move(out));
}

void set_if(Value& object, std::string_view key, const std::string& text) {
    if (!text.empty()) {
        object.set(key, text);
    }
}

void set_seat(Value& object, const Seat& seat) {
    object.set("instance", seat.instance);
    set_if(object, "thread", seat.thread);
}

Seat read_seat(Reader& r) {
    return Seat{r.id("instance"), r.has("thread") ? r.id("thread") : r.id_or("thread", "")};
}

void set_process(Value& object, const ProcessIdentity& process) {
    object.set("pid", process.pid);
    object.set("startTime", process.start_time);
    object.set("runnerPid", process.runner_pid);
    object.set("runnerStartTime", process.runner_start_time);
}

ProcessIdentity read_process(Reader& r) {
    ProcessIdentity out;
    out.pid = r.integer("pid", 0, kPidMax);
    out.start_time = r.string("startTime");
    out.runner_pid = r.integer("runnerPid", 0, kPidMax);
    out.runner_start_time = r.string("runnerStartTime");
    return out;
}

std::string read_run(Reader& r, std::string_view key) {
    std::string run = r.string(key);
    if (!is_run_id(run)) {
        r.problem(key, "expected a run id (r and 12 hex digits)");
    }
    return run;
}

EndReason read_reason(Reader& r) {
    const auto reason = end_reason_from(r.string("reason"));
    if (!reason) {
        r.problem("reason", "expected an end reason");
    }
    return reason.value_or(EndReason::failed);
}

std::optional<int64_t> read_exit_code(Reader& r) {
    const Value* code = r.any("exitCode");
    if (code == nullptr || code->is_null()) {
        return std::nullopt;
    }
    return r.integer("exitCode", 0, 255);
}

Value exit_code_value(const std::optional<int64_t>& code) {
    return code ? Value(*code) : Value();
}

Value text_or_null(const std::string& text) {
    return text.empty() ? Value() : Value(text);
}

MessageClass read_class(Reader& r) {
    const std::string text = r.string("class");
    const auto hit = std::find(kMessageClassText.begin(), kMessageClassText.end(), text);
    if (hit == kMessageClassText.end()) {
        r.problem("class", "expected REQUEST, REPLY or NOTE");
        return MessageClass::note;
    }
    return static_cast<MessageClass>(hit - kMessageClassText.begin());
}

template <class T>
Result<T> finish(Reader& r, T value) {
    MOSAIC_TRY(r.done());
    return value;
}

Reader args_reader(const Value& value) {
    return {value, "args"};
}

Result<Request> decode_request(const Value& frame) {
    Reader r(frame, "frame");
    Request out;
    out.id = r.integer("id", 0, INT64_MAX);
    out.verb = r.string("verb");
    out.cap = r.string_or("cap", "");
    const Value* args = r.object_or_none("args");
    out.args = args != nullptr ? *args : Value(Object{});
    return finish(r, std::move(out));
}

Result<Reply> decode_reply(const Value& frame) {
    Reader r(frame, "frame");
    Reply out;
    out.id = r.integer("id", 0, INT64_MAX);
    out.ok = r.boolean("ok");
    if (out.ok) {
        const Value* result = r.any("result");
        out.result = result != nullptr ? *result : Value();
    } else {
        out.error = r.string("error");
        out.message = r.string_or("message", "");
        out.decision = r.string_or("decision", "");
    }
    return finish(r, std::move(out));
}

std::optional<ConfigNews> read_news(Reader& r) {
    const Value* value = r.object_or_none("news");
    if (value == nullptr) {
        return std::nullopt;
    }
    Reader n(*value, r.where(), r.pointer_of("news"));
    ConfigNews out;
    out.event = n.string("event");
    if (std::find(kConfigEvents.begin(), kConfigEvents.end(), out.event) == kConfigEvents.end()) {
        n.problem("event", "expected an event about the configuration");
    }
    if (const Value* fields = n.object("fields")) {
        out.fields = *fields;
    }
    r.absorb(n.done());
    return out;
}

}  // namespace

Result<std::variant<Request, Reply>> decode_frame(std::string_view line) {
    MOSAIC_TRY_ASSIGN(const Value frame, json::parse(line, {limits::kWireDepthMax}));
    if (frame.find("ok") != nullptr) {
        MOSAIC_TRY_ASSIGN(Reply reply, decode_reply(frame));
        return reply;
    }
    MOSAIC_TRY_ASSIGN(Request request, decode_request(frame));
    return request;
}

std::string encode(const Request& request) {
    Value frame;
    frame.set("id", request.id);
    frame.set("verb", request.verb);
    set_if(frame, "cap", request.cap);
    frame.set("args", request.args.is_null() ? Value(Object{}) : request.args);
    return json::dump(frame) + "\n";
}

std::string encode(const Reply& reply) {
    Value frame;
    frame.set("id", reply.id);
    frame.set("ok", reply.ok);
    if (reply.ok) {
        frame.set("result", reply.result);
    } else {
        frame.set("error", reply.error);
        set_if(frame, "message", reply.message);
        set_if(frame, "decision", reply.decision);
    }
    return json::dump(frame) + "\n";
}

Reply reply_ok(int64_t id, Value result) {
    Reply out;
    out.id = id;
    out.ok = true;
    out.result = std::move(result);
    return out;
}

Reply reply_error(int64_t id, std::string_view code, std::string message) {
    Reply out;
    out.id = id;
    out.error = code;
    out.message = std::move(message);
    return out;
}

Result<LaunchRequest> decode_launch_request(std::string_view line) {
    MOSAIC_TRY_ASSIGN(const Value value, json::parse(line, {limits::kWireDepthMax}));
    Reader r(value, "request");
    LaunchRequest out;
    out.cap = r.string("cap");
    if (out.cap.empty()) {
        r.problem("cap", "expected a capability");
    }
    out.seat = read_seat(r);
    return finish(r, std::move(out));
}

std::string encode(const LaunchRequest& request) {
    Value value;
    value.set("cap", request.cap);
    set_seat(value, request.seat);
    return json::dump(value) + "\n";
}

Value LaunchResult::to_value() const {
    return Value(
        Object{{"run", run}, {"instance", instance}, {"harness", harness}, {"model", model}});
}

Result<LaunchResult> LaunchResult::from(const Value& value) {
    Reader r(value, "result");
    LaunchResult out;
    out.run = read_run(r, "run");
    out.instance = r.id("instance");
    out.harness = r.string("harness");
    out.model = r.string("model");
    return finish(r, std::move(out));
}

std::string encode_launch_reply(const LaunchResult& result) {
    return json::dump(Value(Object{{"ok", true}, {"result", result.to_value()}})) + "\n";
}

std::string encode_launch_refusal(Refusal code,
                                  std::string_view decision,
                                  std::string_view message) {
    Value value;
    value.set("ok", false);
    value.set("error", to_string(code));
    set_if(value, "decision", std::string(decision));
    set_if(value, "message", std::string(message));
    return json::dump(value) + "\n";
}

std::string encode(const CapabilityLine& line) {
    return json::dump(Value(Object{{"cap", line.cap}, {"launchedBy", line.launched_by}})) + "\n";
}

Result<CapabilityLine> decode_capability_line(std::string_view line) {
    MOSAIC_TRY_ASSIGN(const Value value, json::parse(line, {limits::kWireDepthMax}));
    Reader r(value, "stdin");
    CapabilityLine out;
    out.cap = r.string("cap");
    out.launched_by = r.string_or("launchedBy", "");
    if (out.cap.empty()) {
        r.problem("cap", "expected a capability");
    }
    return finish(r, std::move(out));
}

Value BrokerConfig::to_value() const {
    Array role_values;
    for (const RoleAuthority& role : roles) {
        role_values.emplace_back(Object{{"role", role.role},
                                        {"withinRole", string_array(role.within_role)},
                                        {"crossRole", string_array(role.cross_role)},
                                        {"gated", string_array(role.gated)}});
    }
    Value out(Object{{"business", business},
                     {"human", human},
                     {"roles", std::move(role_values)},
                     {"launchBy", text_or_null(launch_by)},
                     {"launchInstances", string_array(launch_instances)},
                     {"modules", string_array(modules)}});
    if (news) {
        out.set("news", Object{{"event", news->event}, {"fields", news->fields}});
    }
    return out;
}

Result<BrokerConfig> BrokerConfig::from(const Value& value) {
    Reader r = args_reader(value);
    BrokerConfig out;
    out.business = r.id("business");
    out.human = r.id("human");
    out.launch_by = r.string_or_null("launchBy");
    out.launch_instances = r.strings("launchInstances");
    out.modules = r.strings("modules");
    out.news = read_news(r);
    if (const Value* roles = r.array("roles")) {
        for (const Value& element : *roles->array()) {
            Reader role(element, "args", r.pointer_of("roles"));
            RoleAuthority authority;
            authority.role = role.id("role");
            authority.within_role = role.strings("withinRole");
            authority.cross_role = role.strings("crossRole");
            authority.gated = role.strings("gated");
            r.absorb(role.done());
            out.roles.push_back(std::move(authority));
        }
    }
    return finish(r, std::move(out));
}

Value AuthorizeLaunchArgs::to_value() const {
    Value out;
    Value by;
    set_seat(by, caller);
    by.set("run", caller_run);
    out.set("caller", std::move(by));
    Value seat;
    set_seat(seat, target);
    out.set("target", std::move(seat));
    return out;
}

Result<AuthorizeLaunchArgs> AuthorizeLaunchArgs::from(const Value& value) {
    Reader r = args_reader(value);
    AuthorizeLaunchArgs out;
    if (const Value* by = r.object("caller")) {
        Reader caller(*by, "args", r.pointer_of("caller"));
        out.caller = read_seat(caller);
        out.caller_run = read_run(caller, "run");
        r.absorb(caller.done());
    }
    if (const Value* seat = r.object("target")) {
        Reader target(*seat, "args", r.pointer_of("target"));
        out.target = read_seat(target);
        r.absorb(target.done());
    }
    return finish(r, std::move(out));
}

Value BindLaunchArgs::to_value() const {
    Value out;
    set_seat(out, seat);
    out.set("run", run);
    out.set("harness", harness);
    out.set("provider", provider);
    out.set("model", model);
    out.set("launchedBy", launched_by);
    out.set("transcript", transcript);
    set_process(out, process);
    return out;
}

Result<BindLaunchArgs> BindLaunchArgs::from(const Value& value) {
    Reader r = args_reader(value);
    BindLaunchArgs out;
    out.seat = read_seat(r);
    out.run = read_run(r, "run");
    out.harness = r.id("harness");
    out.provider = r.string("provider");
    out.model = r.string("model");
    out.launched_by = r.id("launchedBy");
    out.transcript = r.string("transcript");
    out.process = read_process(r);
    return finish(r, std::move(out));
}

Value EndLaunchArgs::to_value() const {
    Value out;
    set_seat(out, seat);
    out.set("run", run);
    out.set("reason", to_string(reason));
    out.set("exitCode", exit_code_value(exit_code));
    out.set("signal", text_or_null(signal));
    out.set("detail", text_or_null(detail));
    out.set("harness", harness);
    set_process(out, process);
    return out;
}

Result<EndLaunchArgs> EndLaunchArgs::from(const Value& value) {
    Reader r = args_reader(value);
    EndLaunchArgs out;
    out.seat = read_seat(r);
    out.run = read_run(r, "run");
    out.reason = read_reason(r);
    out.exit_code = read_exit_code(r);
    out.signal = r.string_or_null("signal");
    out.detail = r.string_or_null("detail");
    out.harness = r.string("harness");
    out.process = read_process(r);
    return finish(r, std::move(out));
}

Value EndLaunchResult::to_value() const {
    return Value(Object{{"reason", to_string(reason)},
                        {"exitCode", exit_code_value(exit_code)},
                        {"signal", text_or_null(signal)},
                        {"detail", text_or_null(detail)},
                        {"first", first}});
}

Result<EndLaunchResult> EndLaunchResult::from(const Value& value) {
    Reader r(value, "result");
    EndLaunchResult out;
    out.reason = read_reason(r);
    out.exit_code = read_exit_code(r);
    out.signal = r.string_or_null("signal");
    out.detail = r.string_or_null("detail");
    out.first = r.boolean("first");
    return finish(r, std::move(out));
}

Value RefuseArgs::to_value() const {
    Value out;
    set_seat(out, seat);
    out.set("code", code);
    out.set("reason", reason);
    out.set("by", by);
    return out;
}

Result<RefuseArgs> RefuseArgs::from(const Value& value) {
    Reader r = args_reader(value);
    RefuseArgs out;
    out.seat = read_seat(r);
    out.code = r.string("code");
    out.reason = r.string("reason");
    out.by = r.string("by");
    return finish(r, std::move(out));
}

Value BoundArgs::to_value() const {
    return Value(Object{{"runs", string_array(runs)}});
}

Result<BoundArgs> BoundArgs::from(const Value& value) {
    Reader r = args_reader(value);
    BoundArgs out;
    out.runs = r.strings_or_none("runs");
    return finish(r, std::move(out));
}

Value BoundResult::to_value() const {
    Array runs;
    for (const BoundRun& one : bound) {
        Value entry;
        set_seat(entry, one.seat);
        entry.set("run", one.run);
        entry.set("harness", one.harness);
        entry.set("claimed", one.claimed);
        set_process(entry, one.process);
        runs.push_back(std::move(entry));
    }
    return Value(Object{{"bound", std::move(runs)}, {"known", string_array(known)}});
}

Result<BoundResult> BoundResult::from(const Value& value) {
    Reader r(value, "result");
    BoundResult out;
    if (const Value* runs = r.array("bound")) {
        for (const Value& element : *runs->array()) {
            Reader entry(element, "result", r.pointer_of("bound"));
            BoundRun one;
            one.seat = read_seat(entry);
            one.run = read_run(entry, "run");
            one.harness = entry.string("harness");
            one.claimed = entry.boolean("claimed");
            one.process = read_process(entry);
            r.absorb(entry.done());
            out.bound.push_back(std::move(one));
        }
    }
    out.known = r.strings("known");
    return finish(r, std::move(out));
}

Value RunArgs::to_value() const {
    return Value(Object{{"run", run}});
}

Result<RunArgs> RunArgs::from(const Value& value) {
    Reader r = args_reader(value);
    RunArgs out;
    out.run = read_run(r, "run");
    return finish(r, std::move(out));
}

std::string_view to_string(NeedArgs::What what) {
    return what == NeedArgs::What::decision ? "decision" : "message";
}

Value NeedArgs::to_value() const {
    return Value(Object{{"what", to_string(what)}, {"id", id}, {"by", by}});
}

Result<NeedArgs> NeedArgs::from(const Value& value) {
    Reader r = args_reader(value);
    NeedArgs out;
    const std::string what = r.string("what");
    if (what == to_string(What::message)) {
        out.what = What::message;
    } else if (what != to_string(What::decision)) {
        r.problem("what", "expected \"decision\" or \"message\"");
    }
    out.id = r.string("id");
    out.by = r.string("by");
    return finish(r, std::move(out));
}

Value HumanLaunchArgs::to_value() const {
    Value out;
    set_seat(out, seat);
    return out;
}

Result<HumanLaunchArgs> HumanLaunchArgs::from(const Value& value) {
    Reader r = args_reader(value);
    HumanLaunchArgs out;
    out.seat = read_seat(r);
    return finish(r, std::move(out));
}

Value StopArgs::to_value() const {
    Value out;
    out.set("target", target);
    set_if(out, "thread", thread);
    out.set("timeoutMs", timeout_ms);
    return out;
}

Result<StopArgs> StopArgs::from(const Value& value) {
    Reader r = args_reader(value);
    StopArgs out;
    out.target = r.string("target");
    if (!is_run_id(out.target) && !is_id(out.target)) {
        r.problem("target", "expected a run id or an instance");
    }
    out.thread = r.id_or("thread", "");
    out.timeout_ms = r.integer_or("timeoutMs", 0, limits::kStopTimeoutMsMax, out.timeout_ms);
    return finish(r, std::move(out));
}

std::string_view to_string(MessageClass message_class) {
    return kMessageClassText[static_cast<size_t>(message_class)];
}

Value MessageSendArgs::to_value() const {
    Value out;
    out.set("to", to.instance);
    set_if(out, "thread", to.thread);
    out.set("class", to_string(message_class));
    out.set("body", body);
    set_if(out, "in_reply_to", in_reply_to);
    set_if(out, "key", key);
    return out;
}

Result<MessageSendArgs> MessageSendArgs::from(const Value& value) {
    Reader r = args_reader(value);
    MessageSendArgs out;
    out.to.instance = r.id("to");
    out.to.thread = r.id_or("thread", "");
    out.message_class = read_class(r);
    out.body = r.string("body");
    out.in_reply_to = r.string_or("in_reply_to", "");
    out.key = r.string_or("key", "");
    if (out.key.size() > limits::kSendKeyBytesMax) {
        r.problem("key", "expected at most " + std::to_string(limits::kSendKeyBytesMax) + " bytes");
    }
    return finish(r, std::move(out));
}

Value MessageReceiveArgs::to_value() const {
    Value out;
    out.set("wait", wait);
    set_if(out, "in_reply_to", in_reply_to);
    return out;
}

Result<MessageReceiveArgs> MessageReceiveArgs::from(const Value& value) {
    Reader r = args_reader(value);
    MessageReceiveArgs out;
    out.wait = r.boolean_or("wait", false);
    out.in_reply_to = r.string_or("in_reply_to", "");
    return finish(r, std::move(out));
}

Value Message::to_value() const {
    Value out;
    out.set("id", id);
    out.set("from", from);
    set_if(out, "thread", from_thread);
    out.set("class", to_string(message_class));
    out.set("body", body);
    out.set("at", at);
    set_if(out, "in_reply_to", in_reply_to);
    return out;
}

Result<Message> Message::from_value(const Value& value, const std::string& pointer) {
    Reader r(value, "result", pointer);
    Message out;
    out.id = r.string("id");
    out.from = r.id("from");
    out.from_thread = r.id_or("thread", "");
    out.message_class = read_class(r);
    out.body = r.string("body");
    out.at = r.string("at");
    out.in_reply_to = r.string_or("in_reply_to", "");
    return finish(r, std::move(out));
}

Value StateFacts::to_value() const {
    Value out;
    out.set("readAt", read_at);
    out.set("launchesAllowed", launches_allowed);
    out.set("launchesSwitchedAt", text_or_null(launches_switched_at));
    out.set("openTasks", open_tasks);
    return out;
}

Result<StateFacts> StateFacts::from_value(const Value& value, const std::string& pointer) {
    Reader r(value, "result", pointer);
    StateFacts out;
    out.read_at = r.string("readAt");
    out.launches_allowed = r.boolean("launchesAllowed");
    out.launches_switched_at = r.string_or_null("launchesSwitchedAt");
    out.open_tasks = r.integer("openTasks", 0, INT64_MAX);
    return finish(r, std::move(out));
}

Value MessageReceiveResult::to_value() const {
    Value out;
    out.set("message", message ? message->to_value() : Value());
    out.set("state", state.to_value());
    return out;
}

Result<MessageReceiveResult> MessageReceiveResult::from(const Value& value) {
    Reader r(value, "result");
    MessageReceiveResult out;
    const Value* message = r.any("message");
    if (message != nullptr && !message->is_null()) {
        MOSAIC_TRY_ASSIGN(Message one, Message::from_value(*message, r.pointer_of("message")));
        out.message = std::move(one);
    }
    if (const Value* state = r.object("state")) {
        MOSAIC_TRY_ASSIGN(out.state, StateFacts::from_value(*state, r.pointer_of("state")));
    }
    return finish(r, std::move(out));
}

Value MessageAckArgs::to_value() const {
    return Value(Object{{"id", id}});
}

Result<MessageAckArgs> MessageAckArgs::from(const Value& value) {
    Reader r = args_reader(value);
    MessageAckArgs out;
    out.id = r.string("id");
    return finish(r, std::move(out));
}

Value ClaimArgs::to_value() const {
    return Value(Object{{"run", run}});
}

Result<ClaimArgs> ClaimArgs::from(const Value& value) {
    Reader r = args_reader(value);
    ClaimArgs out;
    out.run = read_run(r, "run");
    return finish(r, std::move(out));
}

Value DecideArgs::to_value() const {
    Value out(Object{{"id", id}, {"allow", allow}});
    set_if(out, "note", note);
    return out;
}

Result<DecideArgs> DecideArgs::from(const Value& value) {
    Reader r = args_reader(value);
    DecideArgs out;
    out.id = r.string("id");
    out.allow = r.boolean("allow");
    out.note = r.string_or("note", "");
    if (out.note.size() > limits::kTaskTextBytesMax) {
        r.problem("note",
                  "expected at most " + std::to_string(limits::kTaskTextBytesMax) + " bytes");
    }
    return finish(r, std::move(out));
}

Value EventsArgs::to_value() const {
    Value out(Object{{"since", since}, {"follow", follow}});
    if (last > 0) {
        out.set("last", last);
    }
    return out;
}

Result<EventsArgs> EventsArgs::from(const Value& value) {
    Reader r = args_reader(value);
    EventsArgs out;
    out.since = r.integer_or("since", 0, INT64_MAX, 0);
    out.follow = r.boolean_or("follow", false);
    out.last = r.integer_or("last", 0, INT64_MAX, 0);
    return finish(r, out);
}

}  // namespace mosaic::wire
