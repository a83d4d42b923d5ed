#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "wire/json.h"
#include "wire/messages.h"

// A line on tools.sock, decoded and checked, and the lines that answer it. Pure.

namespace mosaic::runner {

// launch {"instance","thread"?}
struct LaunchCall {
    Seat seat;
};

// message_send {"to","thread"?,"body","class"?,"in_reply_to"?,"wait"?}
struct SendCall {
    wire::MessageSendArgs message;
    int64_t wait_seconds = 0;  // 0: doesn't wait for a reply
};

// task_create {"title","body"?,"role"?}, task_list {"role"?,"state"?,"after"?},
// task_update {"id","state"?,"note"?}, decision_request {"question","context"?,"options"?}: one
// request at the broker, whose result is the tool's.
struct BrokerCall {
    std::string verb;
    json::Value args;
};

using ToolCall = std::variant<LaunchCall, SendCall, BrokerCall>;

constexpr int64_t kToolWaitSecondsMax = 86'400;

// `granted`: the typed tools that this session may call. The error's text is what the caller gets:
// it is read by a model, so it names the argument and what it should have been.
[[nodiscard]] Result<ToolCall> decode_tool_call(std::string_view line,
                                                const std::vector<std::string>& granted);

[[nodiscard]] std::string encode_tool_result(const json::Value& result);
[[nodiscard]] std::string encode_tool_error(std::string_view error);

}  // namespace mosaic::runner
