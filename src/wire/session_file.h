#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "wire/json.h"

// session.json: what the host tells the runner of its run. Written once by the host, read once by
// the runner. It holds no secret.

namespace mosaic::wire {

enum class TurnEnd {
    exit,    // the turn is over when the adapter has exited
    marker,  // ... when the file turnMarker appears
};

enum class TurnInput {
    none,  // the adapter's standard input is /dev/null
    body,  // the message's body
};

struct SessionLimits {
    int64_t turn_seconds = 1800;                // a turn's deadline
    int64_t turn_grace_ms = 2000;               // from TERM to KILL
    int64_t reply_bytes = int64_t{128} * 1024;  // more of a turn's output is cut, and says so
    int64_t broker_retries = 30;                // reconnects before exit 23
    int64_t processes = 1024;                   // RLIMIT_NPROC of turns
    int64_t open_files = 4096;                  // RLIMIT_NOFILE of turns

    bool operator==(const SessionLimits&) const = default;
};

struct SessionFile {
    std::string business;
    Seat seat;
    std::string run;
    std::string human;  // the business's human, for messages
    std::string harness;
    std::string provider;
    std::string model;
    std::string thinking;
    std::string broker_socket;  // absolute path, the same inside
    std::string launch_socket;  // empty (null in the file): this role may not launch
    std::string workspace;
    std::string session_dir;
    std::string adapter;  // absolute path inside: /run/mosaic/module/adapter.sh
    std::string bundle_prompt;
    std::string bundle_policy;
    std::string bundle_tools;
    std::string tool_socket;  // absolute path of rw/io/tools.sock
    std::string turn_marker;  // absolute path of rw/io/turn.done
    TurnEnd turn_end = TurnEnd::exit;
    TurnInput turn_input = TurnInput::none;
    std::map<std::string, std::string> harness_env;  // the adapter's own variables
    std::vector<std::string> typed;                  // typed tools this role may call
    SessionLimits limits;
    bool warm = false;

    bool operator==(const SessionFile&) const = default;
    [[nodiscard]] json::Value to_value() const;
    // `where` is the file's name for errors.
    [[nodiscard]] static Result<SessionFile> from(const json::Value& value,
                                                  const std::string& where);
};

}  // namespace mosaic::wire
