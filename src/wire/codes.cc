#include "wire/codes.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace mosaic {
namespace {

constexpr std::array<std::string_view, kRefusals> kRefusalText = {
    "bad-request",
    "unknown-capability",
    "launch-not-configured",
    "instance-not-listed",
    "instance-running",
    "no-role-contract",
    "no-route",
    "harness-off",
    "harness-refused",
    "thinking-unsupported",
    "no-session-credential",
    "harness-missing",
    "sandbox-unavailable",
    "workspace-missing",
    "workspace-unsafe",
    "thread-unsafe",
    "unknown-model",
    "capacity-full",
    "launch-revoked",
    "not-authorized",
    "decision-required",
    "host-stopping",
    "broker-unavailable",
    "storage-unavailable",
    "busy",
    "launch-failed",
};

constexpr std::array<std::string_view, kBusErrors> kBusErrorText = {
    "bad-request",
    "unknown-verb",
    "unknown-capability",
    "not-authorized",
    "not-human",
    "role-held",
    "not-found",
    "too-large",
    "quota-exceeded",
    "decision-required",
    "host-unavailable",
    "refused",
    "storage-unavailable",
    "config-changed",
    "config-invalid",
};

constexpr std::array<std::string_view, kEndReasons> kEndReasonText = {
    "stopped",
    "failed",
    "killed",
    "founder-credentials",
    "claim-refused",
    "session-invalid",
    "broker-unreachable",
    "host-lost",
};

template <class Enum, size_t N>
std::optional<Enum> look_up(const std::array<std::string_view, N>& table, std::string_view text) {
    const auto hit = std::find(table.begin(), table.end(), text);
    if (hit == table.end()) {
        return std::nullopt;
    }
    return static_cast<Enum>(hit - table.begin());
}

}  // namespace

std::string_view to_string(Refusal code) {
    return kRefusalText[static_cast<size_t>(code)];
}

std::optional<Refusal> refusal_from(std::string_view text) {
    return look_up<Refusal>(kRefusalText, text);
}

std::string_view to_string(BusError code) {
    return kBusErrorText[static_cast<size_t>(code)];
}

std::string_view to_string(EndReason reason) {
    return kEndReasonText[static_cast<size_t>(reason)];
}

std::optional<EndReason> end_reason_from(std::string_view text) {
    return look_up<EndReason>(kEndReasonText, text);
}

}  // namespace mosaic
