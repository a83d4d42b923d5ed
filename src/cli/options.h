#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"

// The command line of `mosaic` as a value. Pure: nothing is opened and nothing printed.

namespace mosaic::cli {

enum class Verb {
    launch,
    ps,
    stop,
    send,
    inbox,
    log,
    events,
    top,
    launches_allow,
    launches_revoke,
    decisions,
    decide,
    tasks,
    routes,
    routes_set,
    limits_set,
    instances_set,
    plugins,
    plugins_set,
    reload,
    metrics,
    sandbox_show,
    sandbox_shell,
    doctor,
    config,
    service_install,
    init,
    version,
};

// How many sessions may run on a model.
struct ModelCapacity {
    std::string provider;
    std::string model;
    int64_t max = 0;

    bool operator==(const ModelCapacity&) const = default;
};

struct Options {
    Verb verb = Verb::version;
    bool json = false;
    std::string data;      // --data: a data root
    std::string config;    // --config: the system file
    std::string business;  // --business: an id, or a business file's path

    std::string target;  // launch, sandbox show, routes set, limits set: an instance; stop: a run
                         // or an instance; send: a role; decide, decisions: a decision
    std::string thread;
    std::string body;                  // send; "-" is standard input
    std::optional<Duration> wait;      // send, inbox
    std::optional<Duration> deadline;  // stop's --timeout
    bool peek = false;                 // inbox: leaves what it shows
    bool follow = false;               // log, events
    std::string run;                   // log: only this one's lines
    int64_t since = 0;                 // events: only those past this number
    int64_t last = 0;                  // events: only so many of the newest; 0: all
    bool once = false;                 // top: one snapshot
    bool allow = false;                // decide
    std::string note;                  // decide: words that go along with the answer
    std::string role;                  // tasks: only this role's
    std::string state;                 // tasks: only those in this state; empty: unfinished ones
    // init: the route of both roles, all four or none. routes set: what becomes another; limits
    // set: model and thinking alone.
    std::string harness;
    std::string provider;
    std::string model;
    std::string thinking;
    std::string fallback_harness;  // routes set
    std::string fallback_provider;
    std::string fallback_model;
    std::string fallback_thinking;
    bool no_fallback = false;
    std::optional<std::vector<std::string>> tools;  // limits set
    std::optional<std::vector<std::string>> typed;
    std::vector<ModelCapacity> capacities;
    std::optional<int64_t> account_max;
    // instances set: instances; plugins set: modules; service install: --PROGRAM PATH words
    std::vector<std::string> names;
    bool print_only = false;  // service install
    bool pm = false;          // service install
};

// Either options, or what to say and how to exit: the help (exit 0, with its newline) or what is
// wrong with the arguments (exit 4; exit 2 for an id that can't be one).
struct Parsed {
    std::optional<Options> options;
    int exit_code = 0;
    std::string text;
};

// `arguments` without the program's name.
[[nodiscard]] Parsed parse_arguments(const std::vector<std::string>& arguments);

}  // namespace mosaic::cli
