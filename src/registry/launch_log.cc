#include "registry/launch_log.h"

#include "wire/limits.h"

namespace mosaic::registry {
namespace {

using json::Value;

Value start_line(std::string_view event, const std::string& at) {
    Value out;
    out.set("event", event);
    out.set("at", at);
    return out;
}

void set_seat(Value& out, const Seat& seat) {
    out.set("instance", seat.instance);
    if (!seat.thread.empty()) {
        out.set("thread", seat.thread);
    }
}

Value stages_value(const LaunchStages& stages) {
    Value out;
    out.set("checked", stages.checked);
    out.set("authorized", stages.authorized);
    out.set("prepared", stages.prepared);
    out.set("spawned", stages.spawned);
    out.set("bound", stages.bound);
    out.set("persisted", stages.persisted);
    out.set("delivered", stages.delivered);
    out.set("claimed", stages.claimed);
    return out;
}

std::string finish(const Value& line) {
    return json::dump(line) + "\n";
}

std::string text_of(const Value& object, std::string_view key) {
    const Value* value = object.find(key);
    return value != nullptr && value->string() != nullptr ? *value->string() : std::string();
}

}  // namespace

std::string encode(const LaunchLine& line) {
    Value out = start_line("launch", line.at);
    set_seat(out, line.seat);
    out.set("run", line.run);
    out.set("launchedBy", line.launched_by);
    out.set("harness", line.harness);
    out.set("provider", line.provider);
    out.set("model", line.model);
    out.set("stages", stages_value(line.stages));
    return finish(out);
}

std::string encode(const RefusedLine& line) {
    Value out = start_line("refused", line.at);
    out.set("code", to_string(line.code));
    set_seat(out, line.seat);
    out.set("reason", line.reason);
    out.set("by", line.by);
    return finish(out);
}

std::string encode(const EndLine& line) {
    Value out = start_line("end", line.at);
    set_seat(out, line.seat);
    out.set("run", line.run);
    out.set("reason", to_string(line.reason));
    out.set("exitCode", line.exit_code ? Value(*line.exit_code) : Value());
    out.set("signal", line.signal.empty() ? Value() : Value(line.signal));
    if (!line.detail.empty()) {
        out.set("detail", line.detail);
    }
    return finish(out);
}

std::optional<LogRecord> parse_log_line(std::string_view line) {
    auto value = json::parse(line, {.depth_max = limits::kFileDepthMax});
    if (!value || value->object() == nullptr) {
        return std::nullopt;
    }
    LogRecord out;
    out.event = text_of(*value, "event");
    out.at = text_of(*value, "at");
    out.seat = {text_of(*value, "instance"), text_of(*value, "thread")};
    out.run = text_of(*value, "run");
    out.value = std::move(*value);
    return out;
}

}  // namespace mosaic::registry
