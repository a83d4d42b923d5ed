// A line on bus.sock, admin.sock or the control pair. Host and broker read it with simdjson, the
// runner with nlohmann-json: both must give the same verdict and the same value, or a frame means
// two things.

#include "fuzz/fuzz.h"
#include "wire/json.h"
#include "wire/limits.h"
#include "wire/messages.h"
#include "wire/task_messages.h"

namespace mosaic::json {

// nlohmann_parse.cc.
[[nodiscard]] Result<Value> parse_by_nlohmann(std::string_view text, ParseOptions options);

}  // namespace mosaic::json

namespace mosaic {
namespace {

using json::Value;

void check_parsers(std::string_view text, int depth_max) {
    const auto simd = json::parse(text, {depth_max});
    const auto nlohmann = json::parse_by_nlohmann(text, {depth_max});
    FUZZ_CHECK(simd.has_value() == nlohmann.has_value());
    if (!simd) {
        FUZZ_CHECK(!simd.error().text.empty() && !nlohmann.error().text.empty());
        return;
    }
    FUZZ_CHECK(*simd == *nlohmann);
    // What was read is written so that either reads it again.
    const std::string dumped = json::dump(*simd);
    FUZZ_CHECK(dumped.find('\n') == std::string::npos);
    const auto again = json::parse(dumped, {depth_max});
    FUZZ_CHECK(again && *again == *simd);
    const auto pretty = json::parse_by_nlohmann(json::dump_pretty(*simd), {depth_max});
    FUZZ_CHECK(pretty && *pretty == *simd);
}

// from(to_value(x)) == x for whatever was accepted.
template <class T>
void check_type(const Value& value) {
    const auto decoded = T::from(value);
    if (!decoded) {
        FUZZ_CHECK(!decoded.error().text.empty());
        return;
    }
    const auto again = T::from(decoded->to_value());
    FUZZ_CHECK(again && *again == *decoded);
}

template <class... Types>
void check_types(const Value& value) {
    (check_type<Types>(value), ...);
}

void check_values(const Value& value) {
    check_types<wire::BrokerConfig,
                wire::AuthorizeLaunchArgs,
                wire::BindLaunchArgs,
                wire::EndLaunchArgs,
                wire::EndLaunchResult,
                wire::RefuseArgs,
                wire::BoundArgs,
                wire::BoundResult,
                wire::RunArgs,
                wire::NeedArgs,
                wire::HumanLaunchArgs,
                wire::StopArgs,
                wire::LaunchResult>(value);
    check_types<wire::MessageSendArgs,
                wire::MessageReceiveArgs,
                wire::MessageReceiveResult,
                wire::MessageAckArgs,
                wire::ClaimArgs,
                wire::DecideArgs,
                wire::EventsArgs,
                wire::TaskCreateArgs,
                wire::TaskListArgs,
                wire::TaskUpdateArgs,
                wire::TaskListResult,
                wire::DecisionRequestArgs>(value);
}

void check_frame(std::string_view line) {
    const auto frame = wire::decode_frame(line);
    if (!frame) {
        FUZZ_CHECK(!frame.error().text.empty());
        return;
    }
    const auto* request = std::get_if<wire::Request>(&*frame);
    const auto* reply = std::get_if<wire::Reply>(&*frame);
    std::string again = request != nullptr ? wire::encode(*request) : wire::encode(*reply);
    FUZZ_CHECK(!again.empty() && again.back() == '\n' && again.find('\n') == again.size() - 1);
    again.pop_back();
    const auto twice = wire::decode_frame(again);
    FUZZ_CHECK(twice && twice->index() == frame->index());
    if (request != nullptr) {
        const auto& other = std::get<wire::Request>(*twice);
        FUZZ_CHECK(request->id >= 0 && other.id == request->id && other.verb == request->verb);
        FUZZ_CHECK(other.cap == request->cap && other.args == request->args);
        FUZZ_CHECK(request->args.object() != nullptr);
        check_values(request->args);
    } else {
        const auto& other = std::get<wire::Reply>(*twice);
        FUZZ_CHECK(reply->id >= 0 && other.id == reply->id && other.ok == reply->ok);
        FUZZ_CHECK(other.result == reply->result && other.error == reply->error);
        FUZZ_CHECK(other.message == reply->message && other.decision == reply->decision);
        check_values(reply->result);
    }
}

void check_capability_line(std::string_view line) {
    const auto decoded = wire::decode_capability_line(line);
    if (!decoded) {
        return;
    }
    std::string again = wire::encode(*decoded);
    FUZZ_CHECK(!again.empty() && again.back() == '\n');
    again.pop_back();
    const auto twice = wire::decode_capability_line(again);
    FUZZ_CHECK(twice && twice->cap == decoded->cap && twice->launched_by == decoded->launched_by);
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text = mosaic::fuzz::text_of(data, size);
    mosaic::check_parsers(text, mosaic::limits::kWireDepthMax);
    mosaic::check_parsers(text, mosaic::limits::kFileDepthMax);
    mosaic::check_frame(text);
    mosaic::check_capability_line(text);
    // The same bytes as the arguments alone, which is how most of an input's change goes in.
    if (const auto value = mosaic::json::parse(text); value) {
        mosaic::check_values(*value);
    }
    return 0;
}
