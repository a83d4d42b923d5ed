#include <algorithm>
#include <array>

#include "base/ids.h"
#include "config/config.h"
#include "config/fields.h"
#include "wire/environment_rules.h"
#include "wire/limits.h"

namespace mosaic::config {
namespace {

using json::Reader;
using json::Value;

// What the host sets in a session's environment itself; passing it on would undo that.
constexpr std::array<std::string_view, 4> kOwnVariables = {
    "HOME", "PATH", "TMPDIR", "MOSAIC_RUN_ID"};

constexpr int64_t kHourMs = 3'600'000;
// stopTimeoutMs is what a stop asks for when nobody says otherwise.
static_assert(kHourMs <= limits::kStopTimeoutMsMax);
constexpr int64_t kWeekSeconds = int64_t{7} * 24 * 3600;
constexpr int64_t kPortMax = 65'535;
constexpr int64_t kTebibyte = int64_t{1} << 40;
// With less a session can't even start.
constexpr int64_t kMemoryBytesMin = int64_t{32} * 1024 * 1024;

// The value of an XDG variable, or of HOME: an absolute path, else empty.
std::string absolute_variable(const Environment& env, const std::string& name) {
    const auto hit = env.find(name);
    return hit != env.end() && hit->second.starts_with('/') ? hit->second : std::string();
}

Result<std::string> below_home(const Environment& env,
                               const std::string& xdg_variable,
                               const std::string& in_home) {
    if (const std::string xdg = absolute_variable(env, xdg_variable); !xdg.empty()) {
        return xdg;
    }
    const std::string home = absolute_variable(env, "HOME");
    if (home.empty()) {
        return fail(Code::missing,
                    "HOME: expected an absolute path in the environment (or " + xdg_variable +
                        "), found " + (env.contains("HOME") ? "another value" : "none"));
    }
    return home + (home.ends_with('/') ? "" : "/") + in_home;
}

Limits read_limits(Reader& r) {
    Limits out;
    const Value* value = r.object_or_none("limits");
    if (value == nullptr) {
        return out;
    }
    Reader l(*value, r.where(), r.pointer_of("limits"));
    out.runner_pid_ms = l.integer_or("runnerPidMs", 1, kHourMs, out.runner_pid_ms);
    out.claim_ms = l.integer_or("claimMs", 1, kHourMs, out.claim_ms);
    out.stop_timeout_ms = l.integer_or("stopTimeoutMs", 0, kHourMs, out.stop_timeout_ms);
    out.setup_in_flight = l.integer_or(
        "setupInFlight", 0, static_cast<int64_t>(limits::kRunsMax), out.setup_in_flight);
    out.setup_wait_ms = l.integer_or("setupWaitMs", 0, kHourMs, out.setup_wait_ms);
    out.shm_bytes = l.integer_or("shmBytes", 4096, kTebibyte, out.shm_bytes);
    out.memory_bytes = l.integer_or("memoryBytes", 0, 1024 * kTebibyte, out.memory_bytes);
    if (out.memory_bytes != 0 && out.memory_bytes < kMemoryBytesMin) {
        l.problem("memoryBytes",
                  "expected 0 (no limit) or at least " + std::to_string(kMemoryBytesMin) +
                      ", found " + std::to_string(out.memory_bytes));
    }
    out.runs_kept = l.integer_or("runsKept", 0, 1'000'000, out.runs_kept);
    out.runs_kept_days = l.integer_or("runsKeptDays", 0, 36'500, out.runs_kept_days);
    out.run_disk_bytes =
        l.integer_or("runDiskBytes", int64_t{1024} * 1024, 1024 * kTebibyte, out.run_disk_bytes);
    out.disk_check_seconds =
        l.integer_or("diskCheckSeconds", 1, kWeekSeconds, out.disk_check_seconds);
    wire::SessionLimits& s = out.session;
    s.turn_seconds = l.integer_or("turnSeconds", 1, kWeekSeconds, s.turn_seconds);
    s.turn_grace_ms = l.integer_or("turnGraceMs", 0, kHourMs, s.turn_grace_ms);
    // A reply travels as a message's body.
    s.reply_bytes = l.integer_or(
        "replyBytes", 1, static_cast<int64_t>(limits::kMessageBodyBytesMax), s.reply_bytes);
    s.broker_retries = l.integer_or("brokerRetries", 0, 1'000'000, s.broker_retries);
    s.processes = l.integer_or("processes", 1, 4'194'304, s.processes);
    s.open_files = l.integer_or("openFiles", 16, 1'048'576, s.open_files);
    r.absorb(l.done());
    return out;
}

void check_pass_env(Reader& r, const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
        const std::string& name = names[i];
        if (!wire::is_variable_name(name)) {
            r.problem_in("passEnv", i, "expected a variable's name, found " + in_quotes(name));
        } else if (wire::is_forbidden_variable(name)) {
            r.problem_in("passEnv", i, name + " is never passed to a session");
        } else if (std::find(kOwnVariables.begin(), kOwnVariables.end(), name) !=
                   kOwnVariables.end()) {
            r.problem_in("passEnv", i, name + " is set by the host itself");
        }
    }
    refuse_twice(r, "passEnv", names);
}

SandboxOptions read_sandbox(Reader& r) {
    SandboxOptions out;
    const Value* value = r.object_or_none("sandbox");
    if (value == nullptr) {
        return out;
    }
    Reader s(*value, r.where(), r.pointer_of("sandbox"));
    out.bwrap = s.string_or("bwrap", out.bwrap);
    if (!out.bwrap.starts_with('/')) {
        s.problem("bwrap", "expected an absolute path, found " + in_quotes(out.bwrap));
    } else if (s.has("bwrap")) {
        out.bwrap = read_path(s, "bwrap", "/");
    }
    out.pass_env = s.strings_or_none("passEnv");
    check_pass_env(s, out.pass_env);
    out.git_common_dir = s.boolean_or("gitCommonDir", out.git_common_dir);
    out.nested = s.boolean_or("nested", out.nested);
    r.absorb(s.done());
    return out;
}

std::vector<std::string> read_modules(Reader& r) {
    const Value* plugins = r.object_or_none("plugins");
    if (plugins == nullptr) {
        return {};
    }
    Reader p(*plugins, r.where(), r.pointer_of("plugins"));
    std::vector<std::string> out = p.strings_or_none("harness");
    for (size_t i = 0; i < out.size(); ++i) {
        if (!is_id(out[i])) {
            p.problem_in(
                "harness", i, "expected a module's name (an id), found " + in_quotes(out[i]));
        }
    }
    refuse_twice(p, "harness", out);
    r.absorb(p.done());
    return out;
}

std::vector<std::string> read_notify(Reader& r) {
    std::vector<std::string> out = r.strings_or_none("notify");
    if (!out.empty() && !out.front().starts_with('/')) {
        r.problem_in(
            "notify", 0, "expected a program's absolute path, found " + in_quotes(out.front()));
    }
    for (size_t i = 0; i < out.size(); ++i) {
        if (out[i].find('\0') != std::string::npos) {
            r.problem_in("notify", i, "expected a string without NUL characters");
        }
    }
    return out;
}

int64_t read_metrics_port(Reader& r) {
    const Value* value = r.object_or_none("metrics");
    if (value == nullptr) {
        return 0;
    }
    Reader m(*value, r.where(), r.pointer_of("metrics"));
    const int64_t port = m.integer_or("port", 0, kPortMax, 0);
    r.absorb(m.done());
    return port;
}

}  // namespace

Result<std::string> system_file_path(const std::string& given, const Environment& env) {
    if (!given.empty()) {
        return given;
    }
    if (const auto named = env.find("MOSAIC_CONFIG");
        named != env.end() && !named->second.empty()) {
        return named->second;
    }
    MOSAIC_TRY_ASSIGN(const std::string base, below_home(env, "XDG_CONFIG_HOME", ".config"));
    return base + "/mosaic/system.json";
}

Result<SystemConfig> parse_system(std::string_view text,
                                  const std::string& path,
                                  const Environment& env) {
    const Result<Value> value =
        json::parse(text, json::ParseOptions{.depth_max = limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, path + ": " + value.error().text);
    }
    SystemConfig out;
    out.file = path;
    out.directory = directory_of(path);
    Reader r(*value, path);
    if (r.has("dataRoot")) {
        out.data_root = read_path(r, "dataRoot", out.directory);
    }
    out.roles_dir =
        r.has("rolesDir") ? read_path(r, "rolesDir", out.directory) : out.directory + "/roles";
    out.plugins_harness = read_modules(r);
    out.plugin_dirs = read_paths(r, "pluginDirs", out.directory);
    if (r.has("user")) {
        out.user = read_name(r, "user");
    }
    out.limits = read_limits(r);
    out.sandbox = read_sandbox(r);
    out.notify = read_notify(r);
    out.metrics_port = read_metrics_port(r);
    MOSAIC_TRY(r.done());
    if (out.data_root.empty()) {
        MOSAIC_TRY_ASSIGN(const std::string state,
                          below_home(env, "XDG_STATE_HOME", ".local/state"));
        out.data_root = state + "/mosaic";
    }
    return out;
}

}  // namespace mosaic::config
