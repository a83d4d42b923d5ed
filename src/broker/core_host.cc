// The host's verbs: configuration, the last check of a launch, and a run's life.

#include "base/secret.h"
#include "broker/capability.h"
#include "broker/core.h"
#include "wire/limits.h"

namespace mosaic::broker {
namespace {

json::Value run_event(const Run& run) {
    json::Value event = seat_fields(run.seat);
    event.set("run", run.run);
    return event;
}

bool same(const Run& run, const wire::BindLaunchArgs& args) {
    return run.seat == args.seat && run.harness == args.harness && run.process == args.process;
}

Run run_from(const wire::BindLaunchArgs& args) {
    Run out;
    out.seat = args.seat;
    out.run = args.run;
    out.harness = args.harness;
    out.provider = args.provider;
    out.model = args.model;
    out.launched_by = args.launched_by;
    out.transcript = args.transcript;
    out.process = args.process;
    return out;
}

std::string check_shape(const wire::BindLaunchArgs& args) {
    if (args.process.pid <= 0 || args.process.runner_pid <= 0 || args.process.start_time.empty() ||
        args.process.runner_start_time.empty()) {
        return "args: expected pid, startTime, runnerPid and runnerStartTime of living processes";
    }
    for (const std::string* text : {&args.provider, &args.model}) {
        if (text->size() > limits::kNameBytesMax) {
            return "args: expected provider and model of at most " +
                   std::to_string(limits::kNameBytesMax) + " bytes";
        }
    }
    return {};
}

}  // namespace

Result<Outcome> Core::handle_host(const wire::Request& request, int64_t now) {
    if (request.verb == "config") {
        return configure(request, now);
    }
    if (!configured_) {
        return error(request.id, BusError::bad_request, "config has to come first");
    }
    if (request.verb == "authorizeLaunch") {
        return authorize_launch(request, now);
    }
    if (request.verb == "bindLaunch") {
        return bind_launch(request, now);
    }
    if (request.verb == "endLaunch") {
        return end_launch(request, now);
    }
    if (request.verb == "refuse") {
        return refuse(request, now);
    }
    if (request.verb == "bound") {
        return bound(request);
    }
    if (request.verb == "metrics") {
        return metrics(request);
    }
    return error(request.id, BusError::unknown_verb, "no such verb: " + clip(request.verb, 64));
}

Result<Outcome> Core::configure(const wire::Request& request, int64_t now) {
    auto config = wire::BrokerConfig::from(request.args);
    if (!config) {
        return error(request.id, BusError::bad_request, config.error().text);
    }
    if (has_role(*config, config->human)) {
        return error(request.id,
                     BusError::bad_request,
                     "args: /human: " + config->human +
                         " is a role, too; a message to it would "
                         "have two receivers");
    }
    Outcome out = answer(request.id, json::Object{});
    if (config->news) {
        MOSAIC_TRY(store_.add_event(config->news->event, config->news->fields, now));
        out.events_grew = true;
        config->news.reset();
    }
    config_ = std::move(*config);
    configured_ = true;
    return out;
}

Result<Outcome> Core::authorize_launch(const wire::Request& request, int64_t now) {
    const auto args = wire::AuthorizeLaunchArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    const auto refused = [&](wire::Reply reply) -> Result<Outcome> {
        MOSAIC_TRY(record_refusal(
            {args->target, reply.error, reply.message, describe(args->caller)}, now));
        Outcome out;
        out.reply = std::move(reply);
        out.events_grew = true;
        return out;
    };
    MOSAIC_TRY_ASSIGN(const auto last, store_.launches_switch());
    if (last && !last->allowed) {
        return refused(wire::reply_error(
            request.id, to_string(Refusal::launch_revoked), "the human has revoked launches"));
    }
    const auto absent = [&](std::string why) {
        return refused(
            wire::reply_error(request.id, to_string(BusError::not_authorized), std::move(why)));
    };
    MOSAIC_TRY_ASSIGN(const auto run, store_.find_run(args->caller_run));
    if (!run || !run->holds() || run->seat != args->caller) {
        return absent("run " + args->caller_run + " doesn't hold the role of " +
                      describe(args->caller));
    }
    switch (permission_of(config_, args->caller.instance, "role.launch")) {
        case Permission::free:
            return answer(request.id, json::Object{});
        case Permission::absent:
            return absent("role.launch isn't in the authority of " + args->caller.instance);
        case Permission::gated:
            break;
    }
    const GatedCall call{args->caller,
                         "role.launch",
                         json::dump(seat_fields(args->target)),
                         "launch " + describe(args->target)};
    MOSAIC_TRY_ASSIGN(auto gated, gate(request.id, call, now));
    if (gated) {
        return refused(std::move(*gated));
    }
    return answer(request.id, json::Object{});
}

Result<std::string> Core::why_not_bind(const wire::BindLaunchArgs& args) {
    if (!has_module(config_, args.harness)) {
        return "harness module " + args.harness + " is unknown or not switched on";
    }
    MOSAIC_TRY_ASSIGN(const auto seated, store_.live_run_of(args.seat));
    if (seated) {
        return describe(args.seat) + " is bound to run " + seated->run;
    }
    // Two runs of one runner would leave open whom a connection belongs to.
    MOSAIC_TRY_ASSIGN(
        const auto running,
        store_.live_run_by({args.process.runner_pid, args.process.runner_start_time}));
    if (running) {
        return "process " + std::to_string(args.process.runner_pid) + " is the runner of run " +
               running->run;
    }
    MOSAIC_TRY_ASSIGN(const int64_t live, store_.count_live_runs());
    if (live >= int64_t{limits::kRunsMax}) {
        return std::to_string(live) + " runs are live, the most there can be";
    }
    return std::string();
}

Result<Outcome> Core::bind_launch(const wire::Request& request, int64_t now) {
    const auto args = wire::BindLaunchArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    if (std::string problem = check_shape(*args); !problem.empty()) {
        return error(request.id, BusError::bad_request, std::move(problem));
    }
    MOSAIC_TRY_ASSIGN(const auto known, store_.find_run(args->run));
    if (known) {
        return bind_again(request, *args, *known);
    }
    MOSAIC_TRY_ASSIGN(std::string reason, why_not_bind(*args));
    if (!reason.empty()) {
        return error(request.id, BusError::refused, std::move(reason));
    }
    MOSAIC_TRY_ASSIGN(const Secret capability, mint_capability());
    Run run = run_from(*args);
    run.cap_hash = hash_capability(capability.reveal());
    run.bound_at = now;
    MOSAIC_TRY(store_.add_run(run));
    json::Value event = run_event(run);
    event.set("harness", run.harness);
    event.set("provider", run.provider);
    event.set("model", run.model);
    event.set("launchedBy", run.launched_by);
    MOSAIC_TRY(store_.add_event("session.bound", event, now));
    Outcome out = answer(request.id, json::Object{{"cap", capability.reveal()}});
    out.events_grew = true;
    return out;
}

// The host lost our reply (a broker that was restarted, say) and asks again.
Result<Outcome> Core::bind_again(const wire::Request& request,
                                 const wire::BindLaunchArgs& args,
                                 const Run& run) {
    if (run.ended_at) {
        return error(request.id, BusError::refused, "run " + run.run + " has ended");
    }
    if (!same(run, args)) {
        return error(request.id,
                     BusError::refused,
                     "run " + run.run + " is recorded with another seat, harness or process");
    }
    if (run.claimed_at) {
        return error(request.id, BusError::refused, "run " + run.run + " has claimed already");
    }
    if (!has_module(config_, args.harness)) {
        return error(request.id,
                     BusError::refused,
                     "harness module " + args.harness + " is unknown or not switched on");
    }
    MOSAIC_TRY_ASSIGN(const Secret capability, mint_capability());
    MOSAIC_TRY(store_.set_capability(run.run, hash_capability(capability.reveal())));
    return answer(request.id, json::Object{{"cap", capability.reveal()}});
}

Result<Outcome> Core::end_launch(const wire::Request& request, int64_t now) {
    const auto args = wire::EndLaunchArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    MOSAIC_TRY_ASSIGN(const auto known, store_.find_run(args->run));
    if (known && known->ended_at) {
        wire::EndLaunchResult recorded = known->end;
        recorded.first = false;
        return answer(request.id, recorded.to_value());
    }
    Run run;
    if (known) {
        run = *known;
    } else {
        run.seat = args->seat;
        run.run = args->run;
        run.harness = args->harness;
        run.process = args->process;
        run.ended_at = now;  // from its first row on: a run that was never bound is never live
        MOSAIC_TRY(store_.add_run(run));
    }
    wire::EndLaunchResult how;
    how.reason = args->reason;
    how.exit_code = args->exit_code;
    how.signal = clip(args->signal, limits::kNameBytesMax);
    how.detail = clip(args->detail, limits::kReasonBytesMax);
    how.first = true;
    if (known && run.holds()) {
        MOSAIC_TRY(store_.release(run, now));
        MOSAIC_TRY(store_.add_event("role.released", run_event(run), now));
    }
    MOSAIC_TRY(store_.end(run.run, how, now));
    json::Value event = run_event(run);
    const json::Value result = how.to_value();
    for (const char* field : {"reason", "exitCode", "signal", "detail"}) {
        event.set(field, *result.find(field));
    }
    MOSAIC_TRY(store_.add_event("session.ended", event, now));
    Outcome out = answer(request.id, result);
    out.events_grew = true;
    out.ended_run = run.run;
    return out;
}

Result<Outcome> Core::refuse(const wire::Request& request, int64_t now) {
    const auto args = wire::RefuseArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    MOSAIC_TRY(record_refusal(*args, now));
    Outcome out = answer(request.id, json::Object{});
    out.events_grew = true;
    return out;
}

Result<Outcome> Core::bound(const wire::Request& request) {
    const auto args = wire::BoundArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    wire::BoundResult result;
    MOSAIC_TRY_ASSIGN(const auto live, store_.live_runs());
    for (const Run& run : live) {
        result.bound.push_back({run.seat, run.run, run.harness, run.process, run.holds()});
    }
    for (const std::string& run : args->runs) {
        MOSAIC_TRY_ASSIGN(const auto known, store_.find_run(run));
        if (known) {
            result.known.push_back(run);
        }
    }
    return answer(request.id, result.to_value());
}

}  // namespace mosaic::broker
