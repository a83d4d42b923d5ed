#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/ids.h"
#include "wire/codes.h"
#include "wire/limits.h"

namespace mosaic::cli {
namespace {

// What CLI11 fills in while it parses.
struct Raw {
    Options options;
    double wait_seconds = -1;
    double timeout_seconds = -1;
    std::string answer;
    std::string tools;  // lists with commas, which may be empty
    std::string typed;
    CLI::Option* tools_option = nullptr;
    CLI::Option* typed_option = nullptr;
    std::vector<std::string> capacities;  // PROVIDER MODEL MAX, again and again
    bool none = false;
};

void add_common(CLI::App& command, Raw& raw, Verb verb) {
    command.add_flag("--json", raw.options.json, "JSON for programs instead of text");
    command.add_option("--config",
                       raw.options.config,
                       "The system file (default: $MOSAIC_CONFIG, "
                       "else ~/.config/mosaic/system.json)");
    command.add_option("--data", raw.options.data, "The business's data root");
    command.add_option("--business", raw.options.business, "The business: its id, or its file");
    // A command's own callback comes after that of the subcommand that was given.
    command.callback([&raw, verb, &command] {
        if (command.get_subcommands().empty()) {
            raw.options.verb = verb;
        }
    });
}

CLI::App& add(CLI::App& parent, Raw& raw, Verb verb, std::string name, std::string what) {
    CLI::App& command = *parent.add_subcommand(std::move(name), std::move(what));
    add_common(command, raw, verb);
    return command;
}

void add_thread(CLI::App& command, Raw& raw) {
    command.add_option("--thread", raw.options.thread, "The thread of the instance");
}

// All of `text` as a number in [0, max]. CLI11's own checks let NaN pass, and name a bound of their
// choice.
template <class Number>
bool is_number_up_to(const std::string& text, Number max) {
    Number value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && value >= 0 &&
           value <= max;
}

// How long somebody may ask us to wait.
struct Span {
    double seconds;
    std::string_view name;
};

constexpr Span kYear{366.0 * 24 * 3600, "a year (31622400)"};
constexpr Span kStopTimeout{limits::kStopTimeoutMsMax / 1000.0, "a day (86400)"};
static_assert(kStopTimeout.seconds == 86'400);

// What is wrong with a word, or empty, as CLI11 wants it.
std::string seconds_problem(const std::string& text, const Span& longest) {
    return is_number_up_to(text, longest.seconds)
               ? std::string()
               : "expected seconds, at most " + std::string(longest.name) + ", found \"" + text +
                     "\"";
}

std::string count_problem(const std::string& text) {
    return is_number_up_to(text, std::numeric_limits<int64_t>::max())
               ? std::string()
               : "expected a number from 0 on, found \"" + text + "\"";
}

void add_seconds(
    CLI::App& command, double& into, const char* name, const char* what, const Span& longest) {
    command.add_option(name, into, what)
        ->check([longest](const std::string& text) { return seconds_problem(text, longest); })
        ->type_name("SECONDS");
}

void add_wait(CLI::App& command, Raw& raw, const char* what) {
    add_seconds(command, raw.wait_seconds, "--wait", what, kYear);
}

void add_session_commands(CLI::App& app, Raw& raw) {
    CLI::App& launch = add(app, raw, Verb::launch, "launch", "Launch a session of an instance");
    launch.add_option("INSTANCE", raw.options.target)->required();
    add_thread(launch, raw);
    add(app, raw, Verb::ps, "ps", "Show the sessions; works without a host");
    CLI::App& stop = add(app, raw, Verb::stop, "stop", "Stop a session; works without a host");
    stop.add_option("RUN|INSTANCE", raw.options.target)->required();
    add_thread(stop, raw);
    add_seconds(stop,
                raw.timeout_seconds,
                "--timeout",
                "From SIGTERM to SIGKILL (default: stopTimeoutMs of the system file)",
                kStopTimeout);
}

void add_message_commands(CLI::App& app, Raw& raw) {
    CLI::App& send = add(app, raw, Verb::send, "send", "Send a role a request");
    send.add_option("ROLE", raw.options.target)->required();
    send.add_option("BODY", raw.options.body, "The text; - reads standard input")->required();
    add_thread(send, raw);
    add_wait(send, raw, "Wait so long for the reply and print it");
    CLI::App& inbox =
        add(app, raw, Verb::inbox, "inbox", "Print what roles sent to the human, and take it");
    add_wait(inbox, raw, "Wait so long when there is nothing");
    inbox.add_flag("--peek", raw.options.peek, "Print the oldest message and leave it there");
}

void add_record_commands(CLI::App& app, Raw& raw) {
    CLI::App& log = add(app, raw, Verb::log, "log", "Print the launch log; works without a host");
    log.add_flag("--follow,-f", raw.options.follow, "Go on with what is written from now on");
    log.add_option("--run", raw.options.run, "Only the lines of this run");
    CLI::App& events = add(app, raw, Verb::events, "events", "Print the broker's events");
    events.add_flag("--follow,-f", raw.options.follow, "Go on with what happens from now on");
    events.add_option("--since", raw.options.since, "Only events past this number")
        ->check(count_problem)
        ->type_name("N");
    events.add_option("--last", raw.options.last, "Only so many of the newest events")
        ->check(CLI::PositiveNumber)
        ->type_name("N");
    CLI::App& top =
        add(app, raw, Verb::top, "top", "Watch sessions, launches and events; q leaves");
    top.add_flag("--once", raw.options.once, "Print one snapshot; with --json always");
}

void add_authority_commands(CLI::App& app, Raw& raw) {
    CLI::App& launches =
        *app.add_subcommand("launches", "Allow or forbid launches by sessions (never yours)");
    launches.require_subcommand(1);
    add(launches, raw, Verb::launches_allow, "allow", "Sessions may launch again");
    add(launches, raw, Verb::launches_revoke, "revoke", "No session may launch until allowed");
    add(app,
        raw,
        Verb::decisions,
        "decisions",
        "List what waits for your answer, or show one whole")
        .add_option("DECISION", raw.options.target);
    CLI::App& decide =
        add(app, raw, Verb::decide, "decide", "Answer a decision a session asks for");
    decide.add_option("DECISION", raw.options.target, "Its id, as `mosaic decisions` lists it")
        ->required();
    decide.add_option("ANSWER", raw.answer, "allow or deny")
        ->required()
        ->check(CLI::IsMember({"allow", "deny"}));
    decide.add_option(
        "--note", raw.options.note, "Words for who asked; only where a session asked a question");
    CLI::App& tasks = add(app, raw, Verb::tasks, "tasks", "List the tasks; unfinished ones alone");
    tasks.add_option("--role", raw.options.role, "Only those of this role");
    tasks.add_option("--state", raw.options.state, "Only those in this state")
        ->check(CLI::IsMember({"open", "doing", "done", "dropped"}));
}

CLI::App& add_set(CLI::App& app, Raw& raw, Verb verb, std::string name, std::string what) {
    CLI::App& parent = *app.add_subcommand(std::move(name), what);
    parent.require_subcommand(1);
    return add(parent, raw, verb, "set", std::move(what));
}

void add_routes_set(CLI::App& routes, Raw& raw) {
    Options& o = raw.options;
    CLI::App& set = add(routes,
                        raw,
                        Verb::routes_set,
                        "set",
                        "Change an instance's route; what isn't given stays as it is");
    set.add_option("INSTANCE", o.target)->required();
    set.add_option("--harness", o.harness, "The harness module");
    set.add_option("--provider", o.provider, "The model's provider");
    set.add_option("--model", o.model, "The model, by its exact name");
    set.add_option("--thinking", o.thinking, "One of the harness's thinking levels");
    CLI::Option* none = set.add_flag("--no-fallback", o.no_fallback, "Take the fallback away");
    for (CLI::Option* one :
         {set.add_option("--fallback-harness", o.fallback_harness, "The fallback's harness"),
          set.add_option("--fallback-provider", o.fallback_provider, "The fallback's provider"),
          set.add_option("--fallback-model", o.fallback_model, "The fallback's model"),
          set.add_option("--fallback-thinking", o.fallback_thinking, "The fallback's level")}) {
        one->excludes(none);
    }
}

void add_limits_set(CLI::App& app, Raw& raw) {
    Options& o = raw.options;
    CLI::App& set = add_set(
        app, raw, Verb::limits_set, "limits", "Change what an instance may, or how many may run");
    set.add_option("INSTANCE", o.target, "Whose model, thinking and tools");
    set.add_option("--model", o.model, "The model of its route");
    set.add_option("--thinking", o.thinking, "The thinking level of its route");
    raw.tools_option =
        set.add_option("--tools", raw.tools, "Its built-in tools, with commas; \"\": none")
            ->type_name("A,B");
    raw.typed_option =
        set.add_option("--typed", raw.typed, "Its typed tools, with commas; \"\": none")
            ->type_name("A,B");
    set.add_option("--max", raw.capacities, "How many sessions may run on a model")
        ->type_size(3)
        ->expected(1, 64)
        ->type_name("PROVIDER MODEL N");
    set.add_option("--account-max", o.account_max, "How many may share a credential; 0: any number")
        ->check(count_problem)
        ->type_name("N");
}

void add_config_commands(CLI::App& app, Raw& raw) {
    Options& o = raw.options;
    CLI::App& routes = add(app,
                           raw,
                           Verb::routes,
                           "routes",
                           "Show each instance's route, which would be used now and why");
    add_routes_set(routes, raw);
    add_limits_set(app, raw);
    CLI::App& instances = add_set(app,
                                  raw,
                                  Verb::instances_set,
                                  "instances",
                                  "Say which instances sessions may launch; all others may not be");
    instances.add_flag("--none", raw.none, "Let sessions launch nobody")
        ->excludes(instances.add_option("INSTANCE", o.names));
    CLI::App& plugins =
        add(app, raw, Verb::plugins, "plugins", "Show the harness modules and whether they are on");
    CLI::App& set = add(plugins,
                        raw,
                        Verb::plugins_set,
                        "set",
                        "Say which harness modules are switched on; all others are off");
    CLI::Option* names = set.add_option("MODULE", o.names);
    set.add_flag("--none", raw.none, "Switch all off")->excludes(names);
    add(app, raw, Verb::reload, "reload", "Have the host read its configuration files anew");
    add(app, raw, Verb::metrics, "metrics", "Print what host and broker count, for Prometheus");
}

// A route has four parts and no default for any of them.
void add_init(CLI::App& app, Raw& raw) {
    CLI::App& init = add(
        app, raw, Verb::init, "init", "Write a small business to start from; overwrites nothing");
    Options& o = raw.options;
    const std::array<CLI::Option*, 4> route = {
        init.add_option("--harness", o.harness, "The roles' harness (default: script)"),
        init.add_option("--provider", o.provider, "The model's provider"),
        init.add_option("--model", o.model, "The model, by its exact name"),
        init.add_option(
            "--thinking", o.thinking, "How much it thinks, one of the harness's levels")};
    for (CLI::Option* one : route) {
        for (CLI::Option* other : route) {
            if (one != other) {
                one->needs(other);
            }
        }
    }
}

// The programs that can be pinned are the harness modules' own, so their options aren't known here:
// they stay over as words.
void add_service(CLI::App& app, Raw& raw) {
    CLI::App& service = *app.add_subcommand("service", "The host as a service of systemd");
    service.require_subcommand(1);
    CLI::App& install = add(service,
                            raw,
                            Verb::service_install,
                            "install",
                            "Write the user unit mosaic-host@.service; --PROGRAM PATH pins a "
                            "harness's program, else the one in PATH is");
    install.add_flag("--print", raw.options.print_only, "Print the unit and write nothing");
    install.add_flag("--pm", raw.options.pm, "Have the service launch the PM, too");
    install.allow_extras();
    install.callback([&raw, &install] {
        raw.options.verb = Verb::service_install;
        raw.options.names = install.remaining();
    });
}

void add_machine_commands(CLI::App& app, Raw& raw) {
    CLI::App& sandbox = *app.add_subcommand("sandbox", "What a session's sandbox holds");
    sandbox.require_subcommand(1);
    add(sandbox,
        raw,
        Verb::sandbox_show,
        "show",
        "Show what a run of an instance would see and why")
        .add_option("INSTANCE", raw.options.target)
        ->required();
    add(sandbox,
        raw,
        Verb::sandbox_shell,
        "shell",
        "Open a shell in such a sandbox to look around; works without a host")
        .add_option("INSTANCE", raw.options.target)
        ->required();
    add(app, raw, Verb::doctor, "doctor", "Check what this machine needs, with remedies");
    add(app, raw, Verb::config, "config", "Check the configuration and show it, defaults included");
    add_init(app, raw);
    add_service(app, raw);
    add(app, raw, Verb::version, "version", "Print the version");
}

Parsed wrong(int exit_code, std::string text) {
    return {std::nullopt, exit_code, std::move(text)};
}

std::optional<Duration> duration_of(double in_seconds) {
    if (in_seconds < 0) {
        return std::nullopt;
    }
    return milliseconds(std::llround(in_seconds * 1000));
}

// The names between commas, without blanks around them.
std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> out;
    for (size_t at = 0; at < list.size();) {
        const size_t comma = std::min(list.find(',', at), list.size());
        const std::string part = list.substr(at, comma - at);
        const size_t first = part.find_first_not_of(' ');
        if (first != std::string::npos) {
            out.push_back(part.substr(first, part.find_last_not_of(' ') + 1 - first));
        }
        at = comma + 1;
    }
    return out;
}

// What --max collects, three words each.
std::optional<std::string> take_capacities(Raw& raw) {
    for (size_t i = 0; i + 2 < raw.capacities.size(); i += 3) {
        const std::string& text = raw.capacities[i + 2];
        int64_t max = 0;
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), max);
        if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || max < 0) {
            return "--max: expected PROVIDER MODEL N, found \"" + text + "\" as N";
        }
        raw.options.capacities.push_back({raw.capacities[i], raw.capacities[i + 1], max});
    }
    return std::nullopt;
}

// The commands that change the configuration: something must change. What is wrong, if anything.
std::optional<std::string> take_changes(Raw& raw) {
    Options& o = raw.options;
    if (raw.tools_option->count() > 0) {
        o.tools = split(raw.tools);
    }
    if (raw.typed_option->count() > 0) {
        o.typed = split(raw.typed);
    }
    if (auto problem = take_capacities(raw)) {
        return problem;
    }
    const bool vars = !o.model.empty() || !o.thinking.empty() || o.tools || o.typed;
    const bool fallback = o.no_fallback || !o.fallback_harness.empty() ||
                          !o.fallback_provider.empty() || !o.fallback_model.empty() ||
                          !o.fallback_thinking.empty();
    if (o.verb == Verb::routes_set && !vars && !fallback && o.harness.empty() &&
        o.provider.empty()) {
        return "routes set: say what is to change, as in --model NAME";
    }
    if (o.verb == Verb::limits_set && vars == o.target.empty()) {
        return vars ? "limits set: say whose, as in limits set INSTANCE --model NAME"
                    : "limits set: say what of " + o.target + " is to change, as in --model NAME";
    }
    if (o.verb == Verb::limits_set && !vars && o.capacities.empty() && !o.account_max) {
        return "limits set: say what is to change, as in --max PROVIDER MODEL N";
    }
    if (o.verb == Verb::plugins_set && o.names.empty() && !raw.none) {
        return "plugins set: name the modules, or --none";
    }
    if (o.verb == Verb::instances_set && o.names.empty() && !raw.none) {
        return "instances set: name the instances, or --none";
    }
    return std::nullopt;
}

// Names that become parts of paths or go to the broker are checked before anything else looks at
// them.
Parsed check_names(const Raw& raw) {
    const Options& o = raw.options;
    const bool names_seat = o.verb == Verb::routes_set || o.verb == Verb::launch ||
                            o.verb == Verb::send || o.verb == Verb::sandbox_show ||
                            o.verb == Verb::sandbox_shell || o.verb == Verb::stop;
    if ((names_seat || (o.verb == Verb::limits_set && !o.target.empty())) && !is_id(o.target)) {
        return wrong(exit_code::kInvalidInput,
                     "\"" + o.target + "\" is no name: a-z, 0-9 and -, at most 64");
    }
    if (!o.thread.empty() && !is_id(o.thread)) {
        return wrong(exit_code::kInvalidInput,
                     "--thread: \"" + o.thread + "\" is no name: a-z, 0-9 and -, at most 64");
    }
    if (!o.role.empty() && !is_id(o.role)) {
        return wrong(exit_code::kInvalidInput,
                     "--role: \"" + o.role + "\" is no name: a-z, 0-9 and -, at most 64");
    }
    const bool names_ids = o.verb == Verb::instances_set || o.verb == Verb::plugins_set;
    for (const std::string& name : o.names) {
        if (names_ids && !is_id(name)) {
            return wrong(exit_code::kInvalidInput,
                         "\"" + name + "\" is no name: a-z, 0-9 and -, at most 64");
        }
    }
    if (!o.harness.empty() && !is_id(o.harness)) {
        return wrong(exit_code::kInvalidInput,
                     "--harness: \"" + o.harness + "\" is no name: a-z, 0-9 and -, at most 64");
    }
    if (!o.run.empty() && !is_run_id(o.run)) {
        return wrong(exit_code::kInvalidInput,
                     "--run: \"" + o.run + "\" is no run id: r and 12 hex digits");
    }
    return {o, exit_code::kFine, ""};
}

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    const auto hit = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
        return command->get_name() == word;
    });
    return hit == commands.end() ? nullptr : *hit;
}

// "allow or revoke": the commands of a group.
std::string names_of(const std::vector<const CLI::App*>& commands) {
    std::string out;
    for (const CLI::App* command : commands) {
        out += (out.empty() ? "" : " or ") + command->get_name();
    }
    return out;
}

// CLI11 would only say that a subcommand is required, and not which.
std::optional<std::string> no_such_command(const CLI::App& app,
                                           const std::vector<std::string>& arguments) {
    if (arguments.empty() || arguments[0].starts_with('-')) {
        return std::nullopt;
    }
    const CLI::App* command = find_command(app, arguments[0]);
    if (command == nullptr) {
        return "there is no command \"" + arguments[0] + "\"\nRun `mosaic --help`";
    }
    const auto below = command->get_subcommands([](const CLI::App*) { return true; });
    const std::string second = arguments.size() > 1 ? arguments[1] : "";
    const std::string expected = arguments[0] + ": expected " + names_of(below);
    if (below.empty() || second.starts_with('-')) {
        return std::nullopt;
    }
    if (second.empty()) {
        return command->get_require_subcommand_min() == 0
                   ? std::nullopt
                   : std::optional<std::string>(expected + "\nRun `mosaic " + arguments[0] +
                                                " --help`");
    }
    return find_command(*command, second) != nullptr
               ? std::nullopt
               : std::optional<std::string>(expected + ", found \"" + second + "\"\nRun `mosaic " +
                                            arguments[0] + " --help`");
}

}  // namespace

Parsed parse_arguments(const std::vector<std::string>& arguments) {
    Raw raw;
    CLI::App app("The human's commands of mosaic-host.", "mosaic");
    app.require_subcommand(1);
    // For the help only: it is looked for below.
    bool version = false;
    app.add_flag("--version", version, "Print the version");
    add_session_commands(app, raw);
    add_message_commands(app, raw);
    add_record_commands(app, raw);
    add_authority_commands(app, raw);
    add_config_commands(app, raw);
    add_machine_commands(app, raw);
    const std::string_view first = arguments.empty() ? std::string_view() : arguments.front();
    if (first == "--version") {
        raw.options.verb = Verb::version;
        return {raw.options, exit_code::kFine, ""};
    }
    if (auto problem = no_such_command(app, arguments)) {
        return wrong(exit_code::kUsage, std::move(*problem));
    }
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    // CLI11 reports by exceptions; they end here.
    try {
        app.parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
        return {std::nullopt, exit_code::kFine, app.help()};  // of the command that was given
    } catch (const CLI::ParseError& error) {
        return wrong(
            exit_code::kUsage,
            std::string(error.what()) + "\nRun `mosaic --help` or `mosaic COMMAND --help`");
    }
    raw.options.wait = duration_of(raw.wait_seconds);
    raw.options.deadline = duration_of(raw.timeout_seconds);
    raw.options.allow = raw.answer == "allow";
    if (auto problem = take_changes(raw)) {
        return wrong(exit_code::kUsage, std::move(*problem));
    }
    return check_names(raw);
}

}  // namespace mosaic::cli
