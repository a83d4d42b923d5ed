#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

// The words that cross a boundary: refusal codes, broker errors, end reasons, exit codes. Each kind
// is one table here and nowhere else; docs/protocol.md prints them and a test compares.

namespace mosaic {

// Answers to a launch request (spec: the check table, then what may happen around it). The order
// of the first part is the order of the checks.
enum class Refusal {
    bad_request,
    unknown_capability,
    launch_not_configured,
    instance_not_listed,
    instance_running,
    no_role_contract,
    no_route,
    harness_off,
    harness_refused,
    thinking_unsupported,
    no_session_credential,
    harness_missing,
    sandbox_unavailable,
    workspace_missing,
    workspace_unsafe,
    thread_unsafe,
    unknown_model,
    capacity_full,
    launch_revoked,
    not_authorized,
    decision_required,
    host_stopping,
    broker_unavailable,
    storage_unavailable,
    busy,
    launch_failed,
};

constexpr size_t kRefusals = static_cast<size_t>(Refusal::launch_failed) + 1;

[[nodiscard]] std::string_view to_string(Refusal code);
[[nodiscard]] std::optional<Refusal> refusal_from(std::string_view text);

// Errors of broker frames.
enum class BusError {
    bad_request,
    unknown_verb,
    unknown_capability,
    not_authorized,
    not_human,
    role_held,
    not_found,
    too_large,
    quota_exceeded,
    decision_required,
    // What the broker passes on of the host's answers to the human's launch and stop.
    host_unavailable,
    refused,              // a bindLaunch that contradicts what is recorded
    storage_unavailable,  // the store could not make it durable; nothing of the request is recorded
    config_changed,       // a file is another on disk than the host read; nothing was written
    config_invalid,       // the files as they are, or as they would be, don't hold
};

constexpr size_t kBusErrors = static_cast<size_t>(BusError::config_invalid) + 1;

[[nodiscard]] std::string_view to_string(BusError code);

// Why a run ended.
enum class EndReason {
    stopped,
    failed,
    killed,
    founder_credentials,
    claim_refused,
    session_invalid,
    broker_unreachable,
    host_lost,
};

constexpr size_t kEndReasons = static_cast<size_t>(EndReason::host_lost) + 1;

[[nodiscard]] std::string_view to_string(EndReason reason);
[[nodiscard]] std::optional<EndReason> end_reason_from(std::string_view text);

// Exit codes of the runner, which become end reasons.
namespace runner_exit {
constexpr int kStopped = 0;
constexpr int kFailed = 1;
constexpr int kFounderCredentials = 20;
constexpr int kClaimRefused = 21;
constexpr int kSessionInvalid = 22;
constexpr int kBrokerUnreachable = 23;
}  // namespace runner_exit

// Exit codes of mosaic and mosaic-host.
namespace exit_code {
constexpr int kFine = 0;
constexpr int kFailed = 1;
constexpr int kInvalidInput = 2;
constexpr int kRefused = 3;  // configuration or refusal: not worth a retry
constexpr int kUsage = 4;
}  // namespace exit_code

}  // namespace mosaic
