#include "runner/tool_call.h"

#include <algorithm>
#include <array>

#include "wire/limits.h"
#include "wire/task_messages.h"
#include "wire/typed_tools.h"

namespace mosaic::runner {
namespace {

using json::Reader;
using json::Value;

constexpr std::string_view kUnknownTool = "refused: unknown-tool";

template <class T>
Result<ToolCall> finish(Reader& r, T call) {
    if (auto done = r.done(); !done) {
        return fail(Code::invalid, "bad-request: " + done.error().text);
    }
    return ToolCall(std::move(call));
}

Result<ToolCall> decode_launch(const Value& args) {
    Reader r(args, "launch");
    LaunchCall call;
    call.seat.instance = r.id("instance");
    call.seat.thread = r.id_or("thread", "");
    return finish(r, std::move(call));
}

wire::MessageClass read_class(Reader& r) {
    constexpr std::array<wire::MessageClass, 3> kClasses = {
        wire::MessageClass::request, wire::MessageClass::reply, wire::MessageClass::note};
    const std::string text = r.string_or("class", "REQUEST");
    const auto* const hit = std::find_if(
        kClasses.begin(), kClasses.end(), [&](auto one) { return to_string(one) == text; });
    if (hit == kClasses.end()) {
        r.problem("class", "expected REQUEST, REPLY or NOTE");
        return wire::MessageClass::request;
    }
    return *hit;
}

Result<ToolCall> decode_send(const Value& args) {
    Reader r(args, "message_send");
    SendCall call;
    call.message.to.instance = r.id("to");
    call.message.to.thread = r.id_or("thread", "");
    call.message.body = r.string("body");
    call.message.message_class = read_class(r);
    call.message.in_reply_to = r.string_or("in_reply_to", "");
    call.wait_seconds = r.integer_or("wait", 0, kToolWaitSecondsMax, 0);
    if (call.message.body.size() > limits::kMessageBodyBytesMax) {
        r.problem("body",
                  "expected at most " + std::to_string(limits::kMessageBodyBytesMax) + " bytes");
    }
    return finish(r, std::move(call));
}

// "role" for a model, "to" at the broker, like a message's.
Result<ToolCall> decode_task_create(const Value& args) {
    Reader r(args, "task_create");
    wire::TaskCreateArgs task;
    task.title = wire::read_text(r, "title", limits::kTitleBytesMax);
    task.body = wire::read_text_or_none(r, "body", limits::kTaskTextBytesMax);
    task.to = r.id_or("role", "");
    return finish(r, BrokerCall{"task.create", task.to_value()});
}

Result<ToolCall> decode_task_list(const Value& args) {
    Reader r(args, "task_list");
    wire::TaskListArgs list;
    list.to = r.id_or("role", "");
    list.state = wire::read_task_state(r, "state");
    list.after = r.string_or("after", "");
    return finish(r, BrokerCall{"task.list", list.to_value()});
}

Result<ToolCall> decode_task_update(const Value& args) {
    Reader r(args, "task_update");
    wire::TaskUpdateArgs update;
    update.id = r.string("id");
    update.state = wire::read_task_state(r, "state");
    update.note = wire::read_text_or_none(r, "note", limits::kTaskTextBytesMax);
    if (!r.has("state") && update.note.empty()) {
        r.problem("state", "expected a new state (open, doing, done or dropped), or a note");
    }
    return finish(r, BrokerCall{"task.update", update.to_value()});
}

Result<ToolCall> decode_decision_request(const Value& args) {
    Reader r(args, "decision_request");
    wire::DecisionRequestArgs decision;
    decision.question = wire::read_text(r, "question", limits::kQuestionBytesMax);
    decision.context = wire::read_text_or_none(r, "context", limits::kTaskTextBytesMax);
    decision.options = wire::read_options(r, "options");
    return finish(r, BrokerCall{"decision.request", decision.to_value()});
}

using Decode = Result<ToolCall> (*)(const Value& args);

struct Tool {
    std::string_view name;
    Decode decode;
};

constexpr std::array<Tool, 6> kTools = {{{"launch", decode_launch},
                                         {"message_send", decode_send},
                                         {"task_create", decode_task_create},
                                         {"task_list", decode_task_list},
                                         {"task_update", decode_task_update},
                                         {"decision_request", decode_decision_request}}};
static_assert(kTools.size() == wire::kTypedTools.size());

}  // namespace

Result<ToolCall> decode_tool_call(std::string_view line, const std::vector<std::string>& granted) {
    const auto value = json::parse(line, {limits::kWireDepthMax});
    if (!value) {
        return fail(Code::invalid, "bad-request: " + value.error().text);
    }
    Reader r(*value, "request");
    const std::string tool = r.string("tool");
    const Value none{json::Object{}};
    const Value* args = r.object_or_none("args");
    if (auto done = r.done(); !done) {
        return fail(Code::invalid, "bad-request: " + done.error().text);
    }
    if (std::find(granted.begin(), granted.end(), tool) == granted.end()) {
        return fail(Code::invalid, std::string(kUnknownTool));
    }
    for (const Tool& known : kTools) {
        if (known.name == tool) {
            return known.decode(args != nullptr ? *args : none);
        }
    }
    return fail(Code::invalid, std::string(kUnknownTool));
}

std::string encode_tool_result(const Value& result) {
    return json::dump(Value(json::Object{{"ok", true}, {"result", result}})) + "\n";
}

std::string encode_tool_error(std::string_view error) {
    return json::dump(Value(json::Object{{"ok", false}, {"error", error}})) + "\n";
}

}  // namespace mosaic::runner
