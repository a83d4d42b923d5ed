#include "runner/tool_call.h"

#include <algorithm>
#include <array>

#include "wire/limits.h"

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
    if (tool == "launch") {
        return decode_launch(args != nullptr ? *args : none);
    }
    if (tool == "message_send") {
        return decode_send(args != nullptr ? *args : none);
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
