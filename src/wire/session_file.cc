#include "wire/session_file.h"

#include <limits>

namespace mosaic::wire {
namespace {

using json::Array;
using json::Object;
using json::Reader;
using json::Value;

std::string_view to_string(TurnEnd end) {
    return end == TurnEnd::exit ? "exit" : "marker";
}

std::string_view to_string(TurnInput input) {
    return input == TurnInput::none ? "none" : "body";
}

Value limits_value(const SessionLimits& l) {
    return Value(Object{{"turnSeconds", l.turn_seconds},
                        {"turnGraceMs", l.turn_grace_ms},
                        {"replyBytes", l.reply_bytes},
                        {"brokerRetries", l.broker_retries},
                        {"processes", l.processes},
                        {"openFiles", l.open_files}});
}

SessionLimits read_limits(Reader& r) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    SessionLimits out;
    const Value* value = r.object("limits");
    if (value == nullptr) {
        return out;
    }
    Reader l(*value, r.where(), r.pointer_of("limits"));
    out.turn_seconds = l.integer("turnSeconds", 1, kMax);
    out.turn_grace_ms = l.integer("turnGraceMs", 0, kMax);
    out.reply_bytes = l.integer("replyBytes", 1, kMax);
    out.broker_retries = l.integer("brokerRetries", 0, kMax);
    out.processes = l.integer("processes", 1, kMax);
    out.open_files = l.integer("openFiles", 16, kMax);
    r.absorb(l.done());
    return out;
}

void read_bundle(Reader& r, SessionFile& out) {
    if (const Value* bundle = r.object("bundle")) {
        Reader b(*bundle, r.where(), r.pointer_of("bundle"));
        out.bundle_prompt = b.string("prompt");
        out.bundle_policy = b.string("policy");
        out.bundle_tools = b.string("tools");
        r.absorb(b.done());
    }
}

void read_harness_env(Reader& r, SessionFile& out) {
    const Value* env = r.object("harnessEnv");
    if (env == nullptr) {
        return;
    }
    for (const json::Member& member : *env->object()) {
        const std::string* text = member.second.string();
        if (text == nullptr) {
            r.problem("harnessEnv", "expected strings only");
            return;
        }
        out.harness_env[member.first] = *text;
    }
}

}  // namespace

Value SessionFile::to_value() const {
    Value out;
    out.set("business", business);
    out.set("instance", seat.instance);
    if (!seat.thread.empty()) {
        out.set("thread", seat.thread);
    }
    out.set("run", run);
    out.set("human", human);
    out.set("harness", harness);
    out.set("provider", provider);
    out.set("model", model);
    out.set("thinking", thinking);
    out.set("brokerSocket", broker_socket);
    out.set("launchSocket", launch_socket.empty() ? Value() : Value(launch_socket));
    out.set("workspace", workspace);
    out.set("sessionDir", session_dir);
    out.set("adapter", adapter);
    out.set("bundle",
            Object{{"prompt", bundle_prompt}, {"policy", bundle_policy}, {"tools", bundle_tools}});
    out.set("toolSocket", tool_socket);
    out.set("turnMarker", turn_marker);
    out.set("turnEnd", to_string(turn_end));
    out.set("turnInput", to_string(turn_input));
    Object env;
    for (const auto& [name, text] : harness_env) {
        env.emplace_back(name, text);
    }
    out.set("harnessEnv", std::move(env));
    Array typed_names;
    for (const std::string& name : typed) {
        typed_names.emplace_back(name);
    }
    out.set("typed", std::move(typed_names));
    out.set("limits", limits_value(limits));
    if (warm) {
        out.set("warm", true);
    }
    return out;
}

Result<SessionFile> SessionFile::from(const Value& value, const std::string& where) {
    Reader r(value, where);
    SessionFile out;
    out.business = r.id("business");
    out.seat.instance = r.id("instance");
    out.seat.thread = r.id_or("thread", "");
    out.run = r.string("run");
    if (!is_run_id(out.run)) {
        r.problem("run", "expected a run id (r and 12 hex digits)");
    }
    out.human = r.id("human");
    out.harness = r.id("harness");
    out.provider = r.string("provider");
    out.model = r.string("model");
    out.thinking = r.string("thinking");
    out.broker_socket = r.string("brokerSocket");
    out.launch_socket = r.string_or_null("launchSocket");
    out.workspace = r.string("workspace");
    out.session_dir = r.string("sessionDir");
    out.adapter = r.string("adapter");
    read_bundle(r, out);
    out.tool_socket = r.string("toolSocket");
    out.turn_marker = r.string("turnMarker");
    const std::string end = r.string("turnEnd");
    out.turn_end = end == to_string(TurnEnd::marker) ? TurnEnd::marker : TurnEnd::exit;
    if (end != to_string(out.turn_end)) {
        r.problem("turnEnd", "expected exit or marker");
    }
    const std::string input = r.string("turnInput");
    out.turn_input = input == to_string(TurnInput::body) ? TurnInput::body : TurnInput::none;
    if (input != to_string(out.turn_input)) {
        r.problem("turnInput", "expected none or body");
    }
    read_harness_env(r, out);
    out.typed = r.strings("typed");
    out.limits = read_limits(r);
    out.warm = r.boolean_or("warm", false);
    MOSAIC_TRY(r.done());
    return out;
}

}  // namespace mosaic::wire
