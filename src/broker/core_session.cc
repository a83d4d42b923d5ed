// A session's verbs. Which run it is was decided at accept; the capability proves that the request
// comes from the runner and not from something that got hold of its connection.

#include <algorithm>
#include <array>

#include "broker/capability.h"
#include "broker/core.h"

namespace mosaic::broker {
namespace {

constexpr std::array<std::string_view, 13> kHumanVerbs = {"launch",
                                                          "stop",
                                                          "launches.allow",
                                                          "launches.revoke",
                                                          "decide",
                                                          "decisions",
                                                          "sessions",
                                                          "events",
                                                          "routes",
                                                          "routes.set",
                                                          "plugins.set",
                                                          "metrics",
                                                          "reload"};

// Of those who hold a role.
constexpr std::array<std::string_view, 9> kHeldVerbs = {"message.send",
                                                        "message.receive",
                                                        "message.ack",
                                                        "task.create",
                                                        "task.list",
                                                        "task.update",
                                                        "decision.request",
                                                        "limits.set",
                                                        "instances.set"};

json::Value claimed_value(const std::string& business, const Run& run) {
    json::Value out;
    out.set("business", business);
    out.set("instance", run.seat.instance);
    if (!run.seat.thread.empty()) {
        out.set("thread", run.seat.thread);
    }
    out.set("run", run.run);
    return out;
}

}  // namespace

Result<Outcome> Core::handle_session(Caller& caller, const wire::Request& request, int64_t now) {
    MOSAIC_TRY_ASSIGN(const auto run, store_.find_run(caller.run));
    if (!run || !run->live()) {
        return error(request.id, BusError::unknown_capability, "the run has ended");
    }
    if (!capability_matches(request.cap, run->cap_hash)) {
        return error(request.id, BusError::unknown_capability, "not this run's capability");
    }
    return handle_run(caller, *run, request, now);
}

Result<Outcome> Core::handle_run(Caller& caller,
                                 const Run& run,
                                 const wire::Request& request,
                                 int64_t now) {
    if (request.verb == "role.claim") {
        return claim(request, run, now);
    }
    if (std::find(kHumanVerbs.begin(), kHumanVerbs.end(), request.verb) != kHumanVerbs.end()) {
        return error(request.id, BusError::not_human, request.verb + " is the human's");
    }
    if (std::find(kHeldVerbs.begin(), kHeldVerbs.end(), request.verb) == kHeldVerbs.end() &&
        request.verb != "role.release") {
        return error(request.id, BusError::unknown_verb, "no such verb: " + clip(request.verb, 64));
    }
    if (request.verb == "role.release") {
        return release(request, run, now);
    }
    if (!run.holds()) {
        return error(request.id,
                     BusError::not_authorized,
                     "run " + run.run + " doesn't hold the role of " + describe(run.seat));
    }
    const Sender sender{run.seat, run.run};
    if (request.verb == "message.send") {
        return send(request, sender, now);
    }
    if (request.verb == "message.receive") {
        return receive(request, caller, run.seat, now);
    }
    if (request.verb == "message.ack") {
        return ack(request, caller, run.seat, now);
    }
    if (request.verb == "task.create") {
        return create_task(request, sender, now);
    }
    if (request.verb == "task.update") {
        return update_task(request, sender, now);
    }
    if (request.verb == "decision.request") {
        return request_decision(request, sender, now);
    }
    if (const auto verb = wire::config_verb_from(request.verb)) {
        return change_config_for(request, *verb, sender, now);
    }
    // Before the gate: a human decides about nothing that isn't well-formed.
    if (const auto args = wire::TaskListArgs::from(request.args); !args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    MOSAIC_TRY_ASSIGN(auto refused, permit(request, sender, "the list of tasks", now));
    return refused ? std::move(*refused) : list_tasks(request);
}

Result<Outcome> Core::claim(const wire::Request& request, const Run& run, int64_t now) {
    const auto args = wire::ClaimArgs::from(request.args);
    if (!args) {
        return error(request.id, BusError::bad_request, args.error().text);
    }
    if (args->run != run.run) {
        return error(request.id,
                     BusError::not_authorized,
                     "this connection belongs to run " + run.run + ", not to " + args->run);
    }
    if (run.released_at) {
        return error(
            request.id, BusError::not_authorized, "run " + run.run + " has released its role");
    }
    MOSAIC_TRY_ASSIGN(const auto holder, store_.holder(run.seat));
    if (holder && *holder != run.run) {
        return error(request.id,
                     BusError::role_held,
                     "run " + *holder + " holds the role of " + describe(run.seat));
    }
    Outcome out = answer(request.id, claimed_value(config_.business, run));
    // Also for a claim that was recorded before: the host may never have heard of it.
    out.note = HostNote{"claimed", wire::RunArgs{run.run}.to_value()};
    if (!run.claimed_at) {
        MOSAIC_TRY(store_.claim(run, now));
        json::Value event = seat_fields(run.seat);
        event.set("run", run.run);
        MOSAIC_TRY(store_.add_event("role.claimed", event, now));
        out.events_grew = true;
    }
    return out;
}

Result<Outcome> Core::release(const wire::Request& request, const Run& run, int64_t now) {
    json::Reader r(request.args, "args");
    if (const auto shape = r.done(); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    if (!run.claimed_at) {
        return error(
            request.id, BusError::not_authorized, "run " + run.run + " has claimed nothing");
    }
    Outcome out = answer(request.id, json::Object{});
    out.note = HostNote{"released", wire::RunArgs{run.run}.to_value()};
    if (!run.released_at) {
        MOSAIC_TRY(store_.release(run, now));
        json::Value event = seat_fields(run.seat);
        event.set("run", run.run);
        MOSAIC_TRY(store_.add_event("role.released", event, now));
        out.events_grew = true;
        out.mailboxes.push_back(run.seat);  // its waiting receives get their error now
    }
    return out;
}

}  // namespace mosaic::broker
