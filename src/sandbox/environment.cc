#include "sandbox/environment.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/assert.h"
#include "sandbox/binds.h"
#include "wire/environment_rules.h"

namespace mosaic::sandbox {
namespace {

constexpr std::array<const char*, 6> kFromHost = {
    "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TERM"};

// Every session has its own of these, whatever passEnv says.
constexpr std::array<std::string_view, 4> kBuilt = {"HOME", "TMPDIR", "PATH", "MOSAIC_RUN_ID"};

// Files or directories of certificates.
constexpr std::array<const char*, 11> kCaVariables = {"NODE_EXTRA_CA_CERTS",
                                                      "SSL_CERT_FILE",
                                                      "SSL_CERT_DIR",
                                                      "REQUESTS_CA_BUNDLE",
                                                      "CURL_CA_BUNDLE",
                                                      "GIT_SSL_CAINFO",
                                                      "GIT_SSL_CAPATH",
                                                      "PIP_CERT",
                                                      "CARGO_HTTP_CAINFO",
                                                      "DENO_CERT",
                                                      "NIX_SSL_CERT_FILE"};

constexpr std::array<const char*, 8> kProxyVariables = {"HTTPS_PROXY",
                                                        "HTTP_PROXY",
                                                        "ALL_PROXY",
                                                        "NO_PROXY",
                                                        "https_proxy",
                                                        "http_proxy",
                                                        "all_proxy",
                                                        "no_proxy"};

constexpr const char* kPathWithoutHost = "/usr/local/bin:/usr/bin:/bin";

// SSL_CERT_DIR may list several directories.
constexpr std::string_view kCaListVariable = "SSL_CERT_DIR";

bool is_blank(std::string_view value) {
    return value.find_first_not_of(" \t") == std::string_view::npos;
}

bool has_control(std::string_view value) {
    return std::any_of(value.begin(), value.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
    });
}

// The host's value; null when it has none or a blank one.
const std::string* value_of(const config::Environment& host, const std::string& name) {
    const auto hit = host.find(name);
    return hit == host.end() || is_blank(hit->second) ? nullptr : &hit->second;
}

std::vector<std::string> split_at_colons(std::string_view text) {
    std::vector<std::string> parts;
    size_t at = 0;
    while (at <= text.size()) {
        const size_t end = std::min(text.find(':', at), text.size());
        parts.emplace_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

Result<void> check_name(const std::string& name, const char* where) {
    if (!wire::is_variable_name(name)) {
        return fail(Code::invalid,
                    std::string(where) + ": \"" + name + "\" is no name of a variable");
    }
    if (wire::is_forbidden_variable(name)) {
        return fail(Code::unsafe, std::string(where) + ": " + name + " never enters a session");
    }
    return {};
}

using Variables = std::map<std::string, std::string>;

// Copies the host's values of `names` into `out`. Built names are left alone.
Result<void> pass(const config::Environment& host,
                  const std::vector<std::string>& names,
                  const char* where,
                  Variables& out) {
    for (const std::string& name : names) {
        MOSAIC_TRY(check_name(name, where));
        const bool built = std::find(kBuilt.begin(), kBuilt.end(), name) != kBuilt.end();
        const std::string* value = value_of(host, name);
        if (built || value == nullptr) {
            continue;
        }
        // A value that breaks a line would break whoever writes or reads one; a credential with a
        // line's end in it was copied wrongly. Our own values may hold any byte of a path.
        if (has_control(*value)) {
            return fail(Code::unsafe, name + ": its value holds a control character");
        }
        out[name] = *value;
    }
    return {};
}

void find_ca_paths(const Variables& variables, SessionEnvironment& out) {
    for (const std::string name : kCaVariables) {
        const auto hit = variables.find(name);
        if (hit == variables.end()) {
            continue;
        }
        const std::vector<std::string> paths = name == kCaListVariable
                                                   ? split_at_colons(hit->second)
                                                   : std::vector<std::string>{hit->second};
        for (const std::string& path : paths) {
            if (path.starts_with('/')) {
                out.ca_paths.push_back(CaPath{name, path});
            } else {
                out.warnings.push_back(name + " is no absolute path: sessions can't find its file");
            }
        }
    }
}

template <size_t N>
void warn_of(const std::array<const char*, N>& names,
             const config::Environment& host,
             const Variables& variables,
             SessionEnvironment& out) {
    for (const char* known : names) {
        const std::string name(known);
        if (value_of(host, name) != nullptr && !variables.contains(name)) {
            out.warnings.push_back("the host has " + name +
                                   ", sessions don't get it: sandbox.passEnv would pass it");
        }
    }
}

}  // namespace

std::string session_path(const EnvironmentSpec& spec) {
    std::vector<std::string> parts{kStagePath};
    parts.insert(parts.end(), spec.path_dirs.begin(), spec.path_dirs.end());
    const std::string* host = value_of(*spec.host, "PATH");
    for (const std::string& part : split_at_colons(host != nullptr ? *host : kPathWithoutHost)) {
        if (part.starts_with('/')) {
            parts.push_back(part);
        }
    }
    std::string path;
    std::vector<std::string> seen;
    for (const std::string& part : parts) {
        if (std::find(seen.begin(), seen.end(), part) != seen.end()) {
            continue;
        }
        seen.push_back(part);
        if (!path.empty()) {
            path += ':';
        }
        path += part;
    }
    return path;
}

Result<SessionEnvironment> session_environment(const EnvironmentSpec& spec) {
    MOSAIC_ASSERT(spec.host != nullptr);
    Variables variables;
    MOSAIC_TRY(pass(*spec.host, {kFromHost.begin(), kFromHost.end()}, "environment", variables));
    MOSAIC_TRY(pass(*spec.host, spec.pass_env, "sandbox.passEnv", variables));
    MOSAIC_TRY(pass(*spec.host, spec.provider, "harness module", variables));
    variables["HOME"] = spec.run_dir + "/rw/home";
    variables["TMPDIR"] = "/tmp";
    variables["PATH"] = session_path(spec);
    variables["MOSAIC_RUN_ID"] = spec.run;

    SessionEnvironment out;
    for (const auto& [name, value] : variables) {
        std::string& entry = out.variables.emplace_back(name);
        entry += '=';
        entry += value;
    }
    find_ca_paths(variables, out);
    warn_of(kProxyVariables, *spec.host, variables, out);
    warn_of(kCaVariables, *spec.host, variables, out);
    return out;
}

}  // namespace mosaic::sandbox
