#include "runner/mcp.h"

#include <algorithm>
#include <array>

#include "wire/limits.h"

namespace mosaic::runner {
namespace {

using json::Array;
using json::Object;
using json::Reader;
using json::Value;

// Newest first. 2025-03-26 isn't among them: it demands batches.
constexpr std::array<std::string_view, 3> kVersions = {"2025-11-25", "2025-06-18", "2024-11-05"};

// Of JSON-RPC 2.0.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;

constexpr int kLineDepthMax = 64;

std::string line_of(const Value& id, std::string_view key, Value value) {
    Value out;
    out.set("jsonrpc", "2.0");
    out.set("id", id);
    out.set(key, std::move(value));
    return json::dump(out) + "\n";
}

std::string result_line(const Value& id, Value result) {
    return line_of(id, "result", std::move(result));
}

std::string error_line(const Value& id, int code, std::string_view message) {
    return line_of(id, "error", Object{{"code", code}, {"message", message}});
}

std::string content_line(const Value& id, std::string_view text, bool error) {
    Object result = {{"content", Array{Object{{"type", "text"}, {"text", text}}}}};
    if (error) {
        result.emplace_back("isError", true);
    }
    return result_line(id, std::move(result));
}

bool is_id(const Value& value) {
    return value.string() != nullptr || value.integer() != nullptr || value.number() != nullptr;
}

const std::string* text_at(const Value* object, std::string_view key) {
    const Value* const member = object != nullptr ? object->find(key) : nullptr;
    return member != nullptr ? member->string() : nullptr;
}

std::string initialized(const Value& id, const Value* params, const std::string& version) {
    const std::string* const asked = text_at(params, "protocolVersion");
    if (asked == nullptr) {
        return error_line(id, kInvalidParams, "initialize: /protocolVersion: expected a string");
    }
    const bool known = std::find(kVersions.begin(), kVersions.end(), *asked) != kVersions.end();
    return result_line(id,
                       Object{{"protocolVersion", known ? *asked : std::string(kVersions.front())},
                              {"capabilities", Object{{"tools", Object{}}}},
                              {"serverInfo", Object{{"name", "mosaic"}, {"version", version}}}});
}

std::string listed(const Value& id, const std::vector<McpTool>& tools) {
    Array list;
    for (const McpTool& tool : tools) {
        list.emplace_back(Object{{"name", tool.name},
                                 {"description", tool.description},
                                 {"inputSchema", tool.parameters}});
    }
    return result_line(id, Object{{"tools", std::move(list)}});
}

std::string names_of(const std::vector<McpTool>& tools) {
    std::string out;
    for (const McpTool& tool : tools) {
        out += (out.empty() ? "" : ", ") + tool.name;
    }
    return out.empty() ? "none" : out;
}

McpStep called(const Value& id, const Value* params, const std::vector<McpTool>& tools) {
    const std::string* const name = text_at(params, "name");
    if (name == nullptr) {
        return McpAnswer{error_line(id, kInvalidParams, "tools/call: /name: expected a string")};
    }
    const Value* const arguments = params->find("arguments");
    if (arguments != nullptr && arguments->object() == nullptr && !arguments->is_null()) {
        return McpAnswer{
            error_line(id, kInvalidParams, "tools/call: /arguments: expected an object")};
    }
    const bool known = std::any_of(
        tools.begin(), tools.end(), [&](const McpTool& tool) { return tool.name == *name; });
    if (!known) {
        return McpAnswer{mcp_failed(
            id, "there is no tool " + *name + " in this session; there are: " + names_of(tools))};
    }
    const bool given = arguments != nullptr && arguments->object() != nullptr;
    const Value call(Object{{"tool", *name}, {"args", given ? *arguments : Value(Object{})}});
    std::string line = json::dump(call);
    if (line.size() > limits::kToolLineBytesMax) {
        return McpAnswer{mcp_failed(id,
                                    "the arguments are too long: the call has " +
                                        std::to_string(line.size()) + " bytes, at most " +
                                        std::to_string(limits::kToolLineBytesMax) + " are taken")};
    }
    return McpCall{id, std::move(line) + "\n"};
}

McpStep notified(const std::string& method, const Value* params) {
    if (method == "notifications/cancelled" && params != nullptr) {
        const Value* const id = params->find("requestId");
        if (id != nullptr && is_id(*id)) {
            return McpCancel{*id};
        }
    }
    return McpAnswer{};
}

}  // namespace

Result<std::vector<McpTool>> parse_mcp_tools(std::string_view text, const std::string& where) {
    const auto value = json::parse(text, {limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, where + ": " + value.error().text);
    }
    if (value->array() == nullptr) {
        return fail(Code::invalid, where + ": expected an array, found " + value->kind());
    }
    std::vector<McpTool> out;
    for (const Value& one : *value->array()) {
        Reader r(one, where, "/" + std::to_string(out.size()));
        McpTool tool;
        tool.name = r.string("name");
        tool.description = r.string("description");
        if (const Value* parameters = r.object("parameters")) {
            tool.parameters = *parameters;
        }
        MOSAIC_TRY(r.done());
        out.push_back(std::move(tool));
    }
    return out;
}

McpStep take_mcp_line(std::string_view line, const McpOffer& offer) {
    const auto message = json::parse(line, {kLineDepthMax});
    if (!message) {
        return McpAnswer{mcp_unreadable(message.error().text)};
    }
    const std::string* const method = text_at(&*message, "method");
    const Value* const id = message->find("id");
    if (method == nullptr) {
        // Nothing is ever asked of the client, so an answer of its own answers nothing.
        const bool answer = message->find("result") != nullptr || message->find("error") != nullptr;
        return answer ? McpAnswer{}
                      : McpAnswer{error_line(Value(), kInvalidRequest, "expected a request")};
    }
    const Value* const params = message->find("params");
    if (id == nullptr) {
        return notified(*method, params);
    }
    if (!is_id(*id)) {
        return McpAnswer{
            error_line(Value(), kInvalidRequest, "/id: expected a string or a number")};
    }
    if (*method == "initialize") {
        return McpAnswer{initialized(*id, params, offer.version)};
    }
    if (*method == "ping") {
        return McpAnswer{result_line(*id, Object{})};
    }
    if (*method == "tools/list") {
        return McpAnswer{listed(*id, offer.tools)};
    }
    if (*method == "tools/call") {
        return called(*id, params, offer.tools);
    }
    return McpAnswer{error_line(*id, kMethodNotFound, "no method " + *method)};
}

std::string mcp_called(const Value& id, std::string_view reply) {
    const auto value = json::parse(reply, {limits::kWireDepthMax + 2});
    const Value* const ok = value ? value->find("ok") : nullptr;
    const bool* const good = ok != nullptr ? ok->boolean() : nullptr;
    const Value* const told = good != nullptr ? value->find(*good ? "result" : "error") : nullptr;
    if (told == nullptr) {
        return mcp_failed(id, "the session's answer can't be read");
    }
    return content_line(
        id, told->string() != nullptr ? *told->string() : json::dump(*told), !*good);
}

std::string mcp_failed(const Value& id, std::string_view why) {
    return content_line(id, why, true);
}

std::string mcp_unreadable(std::string_view why) {
    return error_line(Value(), kParseError, why);
}

}  // namespace mosaic::runner
