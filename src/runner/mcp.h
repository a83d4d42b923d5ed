#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

// The Model Context Protocol, as far as a server of tools needs it: what a line of the client means
// and what is answered. Pure; mcp_server.h moves the bytes.

namespace mosaic::runner {

// One of tools.json.
struct McpTool {
    std::string name;
    std::string description;
    json::Value parameters;  // a JSON schema
};

struct McpOffer {
    std::vector<McpTool> tools;
    std::string version;  // of this program
};

[[nodiscard]] Result<std::vector<McpTool>> parse_mcp_tools(std::string_view text,
                                                           const std::string& where);

// A call that is to be made at tools.sock; its answer is mcp_called() or mcp_failed().
struct McpCall {
    json::Value id;
    std::string line;  // for tools.sock, with its newline
};

// The client doesn't want a call's answer any more.
struct McpCancel {
    json::Value id;
};

// A line that answers at once, with its newline; empty: nothing is to be said.
struct McpAnswer {
    std::string line;
};

using McpStep = std::variant<McpAnswer, McpCall, McpCancel>;

[[nodiscard]] McpStep take_mcp_line(std::string_view line, const McpOffer& offer);

// The answer to a call whose reply from tools.sock is `reply`. What the session refuses is an error
// of the tool, for the model to act on, not one of the protocol.
[[nodiscard]] std::string mcp_called(const json::Value& id, std::string_view reply);

// The answer to a call that never reached the session, or that may not have.
[[nodiscard]] std::string mcp_failed(const json::Value& id, std::string_view why);

// A line that can't be read: past the limit, not JSON.
[[nodiscard]] std::string mcp_unreadable(std::string_view why);

}  // namespace mosaic::runner
