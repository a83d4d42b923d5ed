// launch, ps and stop.

#include <algorithm>

#include "cli/command.h"
#include "cli/local_stop.h"
#include "cli/output.h"
#include "cli/sessions_view.h"
#include "process/proc.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

// A stop's own time, and then the host's SIGKILL and the records of the end.
constexpr int64_t kStopMarginMs = 30'000;

Result<wire::StopArgs> stop_args(const Context& context) {
    wire::StopArgs args;
    args.target = context.options.target;
    args.thread = context.options.thread;
    if (context.options.deadline) {
        args.timeout_ms = context.options.deadline->ns / 1'000'000;
        return args;
    }
    // The default is the operator's. With --data alone there may be no system file at all; what it
    // can't say doesn't keep anybody from stopping a session.
    if (auto system = config::load_system(context.options.config, context.env)) {
        args.timeout_ms = system->limits.stop_timeout_ms;
    }
    return args;
}

int print_stop(const Context& context, const json::Value& result) {
    if (context.options.json) {
        return finish(print_json(result));
    }
    const json::Value* reason = result.find("reason");
    if (reason != nullptr && reason->string() != nullptr) {
        return finish(print(one_line(*reason->string()) + "\n"));
    }
    const json::Value* run = result.find("run");
    const std::string name = run != nullptr && run->string() != nullptr ? *run->string() : "";
    return finish(print("stopped " + one_line(name) + "\n"));
}

// After a stop of an instance that found nothing: its runs with a thread are seats of their own.
void name_threads(const Context& context) {
    const auto file = read_sessions(context.place.data_root);
    if (!file || !context.options.thread.empty()) {
        return;
    }
    for (const registry::SessionEntry& entry : file->entries) {
        if (entry.seat.instance == context.options.target && !entry.seat.thread.empty()) {
            complain(describe(entry.seat) + " runs, as " + entry.run + ": stop it with --thread " +
                     entry.seat.thread);
        }
    }
}

int stop_without_host(const Context& context, const wire::StopArgs& args) {
    const auto file = read_sessions(context.place.data_root);
    if (!file) {
        return report(context, never_served(context, file.error()));
    }
    const auto result = stop_locally(*file, args);
    if (!result) {
        const int code = report(context, result.error());
        name_threads(context);
        return code;
    }
    return print_stop(context, *result);
}

}  // namespace

int run_launch(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const wire::HumanLaunchArgs args{{context.options.target, context.options.thread}};
    const auto answer = ask(context, *client, {"launch", args.to_value(), kLaunchWithin});
    if (!answer) {
        return answer.error();
    }
    const auto result = wire::LaunchResult::from(*answer);
    if (!result) {
        return report(context, result.error());
    }
    if (context.options.json) {
        return finish(print(escape_for_terminal(wire::encode_launch_reply(*result))));
    }
    return finish(print(one_line(result->run + " " + result->instance + " (" + result->harness +
                                 ", " + result->model + ")") +
                        "\n"));
}

int run_ps(const Context& context) {
    const auto file = read_sessions(context.place.data_root);
    if (!file) {
        return report(context, never_served(context, file.error()));
    }
    const std::vector<SessionView> sessions = view_sessions(*file, process::boot_id());
    if (!context.options.json) {
        if (!connect_admin(context)) {
            complain("no host runs for " + context.place.data_root +
                     "; this is what its files say");
        }
        return finish(print(table_of(sessions)));
    }
    json::Array out;
    for (const SessionView& session : sessions) {
        out.push_back(session.to_value());
    }
    return finish(print_json(json::Value(std::move(out))));
}

int run_stop(const Context& context) {
    const auto args = stop_args(context);
    if (!args) {
        return report(context, args.error());
    }
    // One deadline, however often it is asked.
    const Instant begun = monotonic_now();
    const auto args_now = [&] {
        wire::StopArgs now = *args;
        const int64_t spent_ms = (monotonic_now() - begun).ns / 1'000'000;
        now.timeout_ms = std::max<int64_t>(0, args->timeout_ms - spent_ms);
        return now;
    };
    const Instant deadline = begun + milliseconds(args->timeout_ms + kStopMarginMs);
    for (auto client = connect_admin(context); client; client = connect_admin(context)) {
        const Duration left{std::max<int64_t>(0, (deadline - monotonic_now()).ns)};
        const auto reply = client->call("stop", args_now().to_value(), left);
        if (!reply && reply.error().code == Code::unavailable && left.ns > 0) {
            // The broker died over it: there is another soon, or it died with its host.
            continue;
        }
        if (reply && reply->ok) {
            return print_stop(context, reply->result);
        }
        const int code = reply ? report(context, *reply) : report(context, reply.error());
        name_threads(context);
        return code;
    }
    return stop_without_host(context, args_now());
}

}  // namespace mosaic::cli
