// The program `mosaic`: parses the command line, finds the place, and runs the command.

#include <signal.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/output.h"
#include "wire/codes.h"

namespace {

using mosaic::cli::Context;
using mosaic::cli::Verb;

bool needs_place(Verb verb) {
    return verb != Verb::version && verb != Verb::init && verb != Verb::doctor &&
           verb != Verb::config && verb != Verb::service_install && verb != Verb::sandbox_show &&
           verb != Verb::sandbox_shell;
}

int run(const Context& context) {
    switch (context.options.verb) {
        case Verb::launch:
            return run_launch(context);
        case Verb::ps:
            return run_ps(context);
        case Verb::stop:
            return run_stop(context);
        case Verb::send:
            return run_send(context);
        case Verb::inbox:
            return run_inbox(context);
        case Verb::log:
            return run_log(context);
        case Verb::events:
            return run_events(context);
        case Verb::top:
            return run_top(context);
        case Verb::launches_allow:
        case Verb::launches_revoke:
            return run_launches(context);
        case Verb::decisions:
            return run_decisions(context);
        case Verb::decide:
            return run_decide(context);
        case Verb::tasks:
            return run_tasks(context);
        case Verb::routes:
            return run_routes(context);
        case Verb::routes_set:
            return run_routes_set(context);
        case Verb::limits_set:
            return run_limits_set(context);
        case Verb::instances_set:
            return run_instances_set(context);
        case Verb::plugins:
            return run_plugins(context);
        case Verb::plugins_set:
            return run_plugins_set(context);
        case Verb::reload:
            return run_reload(context);
        case Verb::metrics:
            return run_metrics(context);
        case Verb::sandbox_show:
            return run_sandbox_show(context);
        case Verb::sandbox_shell:
            return run_sandbox_shell(context);
        case Verb::doctor:
            return run_doctor(context);
        case Verb::config:
            return run_config(context);
        case Verb::service_install:
            return run_service_install(context);
        case Verb::init:
            return run_init(context);
        case Verb::version:
            return run_version(context);
    }
    return mosaic::exit_code::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
    // A reader of our output that has gone is an error of write(2), with its own handling.
    ::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): can't fail
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    mosaic::cli::Parsed parsed = mosaic::cli::parse_arguments(arguments);
    if (!parsed.options) {
        if (parsed.exit_code == mosaic::exit_code::kFine) {
            return mosaic::cli::finish(mosaic::cli::print(parsed.text));
        }
        mosaic::cli::complain(parsed.text);
        if (std::find(arguments.begin(), arguments.end(), "--json") != arguments.end()) {
            mosaic::cli::print_failure("usage", parsed.text);
        }
        return parsed.exit_code;
    }
    Context context{std::move(*parsed.options), {}, mosaic::config::current_environment()};
    if (needs_place(context.options.verb)) {
        auto place = mosaic::cli::find_place(context.options, context.env);
        if (!place) {
            return mosaic::cli::report(context, place.error());
        }
        context.place = std::move(*place);
        if (auto owner = mosaic::cli::become_owner(context.place.data_root); !owner) {
            return mosaic::cli::report(context, owner.error());
        }
    }
    return run(context);
}
