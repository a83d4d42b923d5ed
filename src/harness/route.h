#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "config/config.h"
#include "harness/module.h"
#include "wire/codes.h"

// Which route a launch takes: the instance's own, or its fallback when the own one has no
// credential or no program here and now. This is the whole of the sixth check of a launch.

namespace mosaic::harness {

// A program as it was found and what it really is: both are the same file in a session.
struct FoundProgram {
    std::string found;  // absolute: the pinned path, or the entry of PATH
    std::string real;   // without links; a regular file that we may execute

    bool operator==(const FoundProgram&) const = default;
};

struct ChosenRoute {
    config::Route route;
    const Module* module = nullptr;  // lives in the ModuleSet
    std::string reason;              // "primary", or "fallback: <why the primary was not taken>"
    std::optional<FoundProgram> program;
    std::map<std::string, FoundProgram> helpers;
    // Names of host variables that the session gets: the credential in use, then what the provider
    // lists and is set.
    std::vector<std::string> variables;
    std::vector<std::string> credential;  // the set in use; empty: the provider needs none
    std::string account;                  // "A+B" of that set when the module counts it; else empty
};

struct RouteRefusal {
    Refusal code = Refusal::no_route;
    std::string reason;  // for the human; holds no value of a variable

    bool operator==(const RouteRefusal&) const = default;
};

using RouteChoice = std::variant<ChosenRoute, RouteRefusal>;

// `host_env` is the host's own environment: credentials, pinned programs and PATH. Looks at the
// file system for programs; starts none. In order: no-route, harness-off, harness-refused,
// thinking-unsupported, no-session-credential, harness-missing. Only the last two of the primary
// make the fallback the one to check; the refusal of a fallback tells the primary's as well.
[[nodiscard]] RouteChoice choose_route(const config::Instance& instance,
                                       const ModuleSet& modules,
                                       const config::Environment& host_env);

// The checks of one route alone, for a change of routes that must name the same codes. Instead of
// choosing it tells about this one.
[[nodiscard]] RouteChoice check_route(const config::Route& route,
                                      const config::Instance& instance,
                                      const ModuleSet& modules,
                                      const config::Environment& host_env);

// One program: the pinned path when its variable is set, else the first usable file of its names in
// the directories of PATH. The error names the path and what is wrong with it.
[[nodiscard]] Result<FoundProgram> find_program(const Program& program,
                                                const config::Environment& host_env);

// The module's program and helpers into `out`; why one can't be had, else nothing.
[[nodiscard]] std::optional<std::string> take_programs(const Module& module,
                                                       const config::Environment& host_env,
                                                       ChosenRoute& out);

// The command that makes the route's program print its version, by its real path. Empty: there is
// no program, or its module asks for none.
[[nodiscard]] std::vector<std::string> version_command(const ChosenRoute& route);

// "A, B, C with D".
[[nodiscard]] std::string describe_sets(const std::vector<CredentialSet>& sets);

}  // namespace mosaic::harness
