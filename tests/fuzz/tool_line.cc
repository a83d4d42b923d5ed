// A line on tools.sock, from a turn's programs.

#include "fuzz/fuzz.h"
#include "runner/extract.h"
#include "runner/tool_call.h"
#include "wire/limits.h"
#include "wire/task_messages.h"

namespace mosaic {
namespace {

void check_call(const runner::ToolCall& call) {
    if (const auto* launch = std::get_if<runner::LaunchCall>(&call)) {
        FUZZ_CHECK(is_id(launch->seat.instance));
        FUZZ_CHECK(launch->seat.thread.empty() || is_id(launch->seat.thread));
        return;
    }
    if (const auto* send = std::get_if<runner::SendCall>(&call)) {
        FUZZ_CHECK(send->message.body.size() <= limits::kMessageBodyBytesMax);
        FUZZ_CHECK(send->wait_seconds >= 0 && send->wait_seconds <= runner::kToolWaitSecondsMax);
        const auto again = wire::MessageSendArgs::from(send->message.to_value());
        FUZZ_CHECK(again && *again == send->message);
        return;
    }
    // What the runner sends on is something that the broker can read.
    const auto& broker = std::get<runner::BrokerCall>(call);
    const bool readable =
        broker.verb == "task.create" ? wire::TaskCreateArgs::from(broker.args).has_value()
        : broker.verb == "task.list" ? wire::TaskListArgs::from(broker.args).has_value()
        : broker.verb == "task.update"
            ? wire::TaskUpdateArgs::from(broker.args).has_value()
            : broker.verb == "decision.request" && wire::DecisionRequestArgs::from(broker.args);
    FUZZ_CHECK(readable);
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    static const std::vector<std::string> kAll = {
        "launch", "message_send", "task_create", "task_list", "task_update", "decision_request"};
    const std::string_view text = fuzz::text_of(data, size);
    const auto call = runner::decode_tool_call(text, kAll);
    if (call) {
        check_call(*call);
        // Nothing of it passes for a session that may call nothing.
        const auto refused = runner::decode_tool_call(text, {});
        FUZZ_CHECK(!refused && refused.error().text == "refused: unknown-tool");
    } else {
        const std::string line = runner::encode_tool_error(call.error().text);
        FUZZ_CHECK(line.find('\n') == line.size() - 1);
        FUZZ_CHECK(json::parse(line).has_value());
    }
    static const runner::ExtractRules kRules = {
        {{"/type", "result"}}, "/message/content/*/text", {{"/is_error", "true"}}, "/error"};
    if (const auto answer = runner::extract(kRules, text); answer) {
        FUZZ_CHECK(answer->text.size() <= size * 3);
    }
    return 0;
}
