// Goal: whatever happens in whatever order, a run ends with nothing left: one answer to its caller,
// one end at the broker when it may be bound there, the entry removed, the seat freed, and never a
// capability before the durable record; a warm seat that nobody took ends without a word. Method:
// every sequence of events that the effects allow, up to a depth, against a small model of the
// world.

#include "launch/run_machine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace mosaic;
using namespace mosaic::launch;

namespace {

// What the world owes us: events that may still come, and what exists in it.
struct World {
    std::set<EventKind> pending;  // answers under way
    bool process = false;
    bool timer = false;
    bool bound = false;
    bool recorded = false;
    bool durable = false;
    bool warm = false;  // nobody has asked for it yet
    bool handed_over = false;
    int replies = 0;
    int end_records = 0;
    int freed = 0;
    bool capability_out = false;
    bool files = false;
    bool in_setup = false;
};

void carry_out(World& w, const Step& s) {
    for (const Effect& effect : s.effects) {
        switch (effect.kind) {
            case EffectKind::authorize:
                w.pending.insert(
                    {EventKind::authorized, EventKind::refused, EventKind::handed_over});
                break;
            case EffectKind::enqueue:
                w.pending.insert(EventKind::admitted);
                break;
            case EffectKind::prepare:
                w.files = true;
                w.in_setup = true;
                w.pending.insert({EventKind::prepared, EventKind::prepare_failed});
                break;
            case EffectKind::spawn:
                w.pending.insert({EventKind::started, EventKind::start_failed});
                break;
            case EffectKind::bind:
                REQUIRE_FALSE(w.warm);
                w.pending.insert(
                    {EventKind::bound, EventKind::bind_refused, EventKind::broker_lost});
                w.bound = true;
                break;
            case EffectKind::record:
                w.recorded = true;
                w.pending.insert({EventKind::recorded, EventKind::record_failed});
                break;
            case EffectKind::deliver:
                REQUIRE(w.durable);
                REQUIRE(w.recorded);
                REQUIRE(w.bound);
                w.capability_out = true;
                w.pending.insert({EventKind::delivered, EventKind::deliver_failed});
                w.pending.insert(EventKind::claimed);
                break;
            case EffectKind::arm_deadline:
                w.timer = true;
                break;
            case EffectKind::disarm_deadline:
                w.timer = false;
                break;
            case EffectKind::term:
            case EffectKind::kill:
            case EffectKind::log_launch:
                break;
            case EffectKind::leave_setup:
                REQUIRE(w.in_setup);
                w.in_setup = false;
                break;
            case EffectKind::reply_launched:
            case EffectKind::reply_refused:
                REQUIRE_FALSE(w.warm);
                ++w.replies;
                break;
            case EffectKind::amend:
                REQUIRE(w.bound);
                REQUIRE(w.durable);
                REQUIRE(w.replies == 1);
                break;
            case EffectKind::log_refused:
                REQUIRE_FALSE(w.warm);
                REQUIRE_FALSE(w.bound);
                break;
            case EffectKind::log_end:
                ++w.end_records;
                break;
            case EffectKind::end_at_broker:
                REQUIRE(w.bound);
                REQUIRE_FALSE(w.process);
                w.pending.insert(EventKind::ended);
                break;
            case EffectKind::unrecord:
                REQUIRE_FALSE(w.process);
                w.pending.insert(EventKind::removed);
                break;
            case EffectKind::discard_files:
                REQUIRE_FALSE(w.process);
                REQUIRE_FALSE(w.bound);
                REQUIRE_FALSE(w.recorded);
                w.files = false;
                break;
            case EffectKind::free_seat:
                REQUIRE_FALSE(w.process);
                REQUIRE_FALSE(w.in_setup);
                ++w.freed;
                break;
        }
    }
}

// The event happened: what it changes in the world, and which answers can't come any more.
void happen(World& w, EventKind event) {
    const auto drop = [&](std::initializer_list<EventKind> kinds) {
        for (const EventKind kind : kinds) {
            w.pending.erase(kind);
        }
    };
    switch (event) {
        case EventKind::handed_over:
            w.handed_over = true;
            [[fallthrough]];
        case EventKind::authorized:
        case EventKind::refused:
            drop({EventKind::authorized, EventKind::refused, EventKind::handed_over});
            break;
        case EventKind::taken:
            w.warm = false;
            break;
        case EventKind::prepared:
        case EventKind::prepare_failed:
            drop({EventKind::prepared, EventKind::prepare_failed});
            break;
        case EventKind::started:
            drop({EventKind::started, EventKind::start_failed});
            w.process = true;
            w.pending.insert(EventKind::runner_found);
            break;
        case EventKind::start_failed:
            drop({EventKind::started, EventKind::start_failed});
            break;
        case EventKind::bound:
        case EventKind::broker_lost:
            drop({EventKind::bound, EventKind::bind_refused, EventKind::broker_lost});
            break;
        case EventKind::bind_refused:
            drop({EventKind::bound, EventKind::bind_refused, EventKind::broker_lost});
            w.bound = false;
            break;
        case EventKind::recorded:
            w.durable = true;
            [[fallthrough]];
        case EventKind::record_failed:
            drop({EventKind::recorded, EventKind::record_failed});
            break;
        case EventKind::delivered:
        case EventKind::deliver_failed:
            drop({EventKind::delivered, EventKind::deliver_failed});
            break;
        case EventKind::exited:
            w.process = false;
            w.pending.erase(EventKind::runner_found);
            break;
        case EventKind::deadline:
            w.timer = false;
            break;
        case EventKind::ended:
            w.bound = false;
            w.pending.erase(event);
            break;
        case EventKind::removed:
            w.recorded = false;
            w.pending.erase(event);
            break;
        case EventKind::admitted:
        case EventKind::runner_found:
        case EventKind::claimed:
        case EventKind::stop:
            w.pending.erase(event);
            break;
    }
}

struct Explorer {
    std::vector<EventKind> path;
    size_t runs = 0;
    size_t steps = 0;

    // Calls itself; depth is the budget.
    void explore(const RunState& state, const World& world, int stops, int deadlines, int depth) {
        std::vector<EventKind> next(world.pending.begin(), world.pending.end());
        if (world.process) {
            next.push_back(EventKind::exited);
        }
        if (world.timer && deadlines > 0) {
            next.push_back(EventKind::deadline);
        }
        if (state.phase == Phase::warm) {
            next.push_back(EventKind::taken);
        }
        const bool over = state.phase == Phase::over;
        if (stops > 0 && !over) {
            next.push_back(EventKind::stop);
        }
        if (next.empty() || depth == 0) {
            if (next.empty()) {
                ++runs;
                CHECK(over);
            }
            return;
        }
        if (over) {
            ++runs;
            CHECK(world.freed == (world.handed_over ? 0 : 1));
            CHECK(world.replies == (world.handed_over || world.warm ? 0 : 1));
            CHECK(world.end_records <= (world.handed_over || world.warm ? 0 : 1));
            CHECK_FALSE(world.process);
            CHECK_FALSE(world.bound);
            CHECK_FALSE(world.recorded);
            CHECK_FALSE(world.in_setup);
            CHECK(world.end_records <= 1);
        }
        for (const EventKind event : next) {
            path.push_back(event);
            std::string trace;
            for (const EventKind kind : path) {
                trace += std::string(to_string(kind)) + " ";
            }
            CAPTURE(trace);
            World after = world;
            happen(after, event);
            const Step s = step(state, Event{event, Refusal::not_authorized, EndReason::stopped});
            ++steps;
            carry_out(after, s);
            explore(s.next,
                    after,
                    stops - (event == EventKind::stop ? 1 : 0),
                    deadlines - (event == EventKind::deadline ? 1 : 0),
                    depth - 1);
            path.pop_back();
        }
    }
};

RunState after(const std::vector<EventKind>& events,
               std::vector<EffectKind>* effects = nullptr,
               const Step& first = begin()) {
    RunState state = first.next;
    for (const EventKind event : events) {
        const Step s = step(state, Event{event, Refusal::launch_failed, EndReason::stopped});
        if (effects != nullptr) {
            effects->clear();
            for (const Effect& effect : s.effects) {
                effects->push_back(effect.kind);
            }
        }
        state = s.next;
    }
    return state;
}

std::string text_of(const std::vector<EffectKind>& effects) {
    std::string text;
    for (const EffectKind effect : effects) {
        text += (text.empty() ? "" : " ") + std::string(to_string(effect));
    }
    return text;
}

template <class Effects>
std::string text_of(const Effects& effects) {
    std::vector<EffectKind> kinds;
    for (const Effect& effect : effects) {
        kinds.push_back(effect.kind);
    }
    return text_of(kinds);
}

}  // namespace

TEST_CASE(
    "no order of events leaves anything behind, answers twice or sends an unrecorded run's "
    "capability") {
    Explorer explorer;
    World world;
    const Step first = begin();
    carry_out(world, first);
    explorer.explore(first.next, world, 2, 2, 30);
    MESSAGE(explorer.steps << " steps, " << explorer.runs << " ends");
    CHECK(explorer.runs > 1000);
}

TEST_CASE("a warm seat leaves nothing behind either and ends without a word until it is taken") {
    Explorer explorer;
    World world;
    world.warm = true;
    const Step first = begin_warm();
    carry_out(world, first);
    explorer.explore(first.next, world, 2, 2, 30);
    MESSAGE(explorer.steps << " steps, " << explorer.runs << " ends");
    CHECK(explorer.runs > 1000);
}

TEST_CASE("a launch goes through its stages in order") {
    std::vector<EffectKind> effects;
    using E = EventKind;
    CHECK(after({E::authorized,
                 E::admitted,
                 E::prepared,
                 E::started,
                 E::runner_found,
                 E::bound,
                 E::recorded,
                 E::delivered,
                 E::claimed},
                &effects)
              .phase == Phase::live);
    CHECK(effects == std::vector<EffectKind>{EffectKind::leave_setup,
                                             EffectKind::disarm_deadline,
                                             EffectKind::log_launch,
                                             EffectKind::reply_launched});
}

TEST_CASE("a claim that is known before the write's completion counts") {
    using E = EventKind;
    const RunState state = after({E::authorized,
                                  E::admitted,
                                  E::prepared,
                                  E::started,
                                  E::runner_found,
                                  E::bound,
                                  E::recorded,
                                  E::claimed});
    CHECK(state.phase == Phase::live);
    CHECK(step(state, Event{E::delivered}).next.phase == Phase::live);
}

TEST_CASE("a reason that the host set before its own kill wins over the exit's") {
    using E = EventKind;
    const RunState state = after({E::authorized,
                                  E::admitted,
                                  E::prepared,
                                  E::started,
                                  E::runner_found,
                                  E::bound,
                                  E::recorded,
                                  E::delivered,
                                  E::deadline});
    CHECK(state.phase == Phase::killing);
    const Step s = step(state, Event{E::exited, Refusal::launch_failed, EndReason::killed});
    CHECK(s.next.reason == EndReason::failed);
    CHECK(s.next.failed_in == Phase::claiming);
}

TEST_CASE("a stopped session keeps the reason of its exit, killed included") {
    using E = EventKind;
    RunState state = after({E::authorized,
                            E::admitted,
                            E::prepared,
                            E::started,
                            E::runner_found,
                            E::bound,
                            E::recorded,
                            E::delivered,
                            E::claimed,
                            E::stop});
    CHECK(state.phase == Phase::stopping);
    state = step(state, Event{E::deadline}).next;
    CHECK(state.phase == Phase::killing);
    const Step s = step(state, Event{E::exited, Refusal::launch_failed, EndReason::killed});
    CHECK(s.next.reason == EndReason::killed);
}

TEST_CASE("a broker that doesn't answer in time refuses the launch") {
    const Step s = step(begin().next, Event{EventKind::deadline});
    CHECK(s.next.phase == Phase::over);
    CHECK(s.next.refusal == Refusal::broker_unavailable);
    CHECK(step(s.next, Event{EventKind::authorized}).next.phase == Phase::over);
}

TEST_CASE("a stop says to who waits for the launch why it was stopped") {
    using E = EventKind;
    for (const Refusal why : {Refusal::host_stopping, Refusal::launch_failed}) {
        CHECK(step(begin().next, Event{E::stop, why}).next.refusal == why);
        CHECK(step(after({E::authorized}), Event{E::stop, why}).next.refusal == why);
        const RunState spawning = after({E::authorized, E::admitted, E::prepared, E::started});
        const Step s = step(spawning, Event{E::stop, why});
        CHECK(s.next.phase == Phase::killing);
        CHECK(s.next.refusal == why);
        CHECK(s.next.failed_in == Phase::spawning);
    }
}

TEST_CASE("a second stop of a stopping session only brings its deadline nearer") {
    using E = EventKind;
    const RunState stopping = after({E::authorized,
                                     E::admitted,
                                     E::prepared,
                                     E::started,
                                     E::runner_found,
                                     E::bound,
                                     E::recorded,
                                     E::delivered,
                                     E::claimed,
                                     E::stop});
    const Step s = step(stopping, Event{E::stop});
    CHECK(s.next.phase == Phase::stopping);
    REQUIRE(s.effects.size() == 1);
    CHECK(s.effects[0].kind == EffectKind::arm_deadline);
}

TEST_CASE("a refusal by the broker keeps its code") {
    const Step s = step(begin().next, Event{EventKind::refused, Refusal::launch_revoked});
    CHECK(s.next.phase == Phase::over);
    CHECK(s.next.refusal == Refusal::launch_revoked);
}

TEST_CASE("a stop while files are written waits for them, then removes them") {
    using E = EventKind;
    std::vector<EffectKind> effects;
    RunState state = after({E::authorized, E::admitted, E::stop}, &effects);
    CHECK(state.phase == Phase::preparing);
    CHECK(effects.empty());
    const Step s = step(state, Event{E::prepared});
    CHECK(s.next.phase == Phase::over);
    CHECK(s.next.refusal == Refusal::launch_failed);
    CHECK(std::find(s.effects.begin(), s.effects.end(), Effect{EffectKind::discard_files}) !=
          s.effects.end());
}

TEST_CASE("what each step of a run does") {
    using E = EventKind;
    using Events = std::vector<E>;
    const auto and_then = [](Events events, const Events& more) {
        events.insert(events.end(), more.begin(), more.end());
        return events;
    };
    const Events prepared = {E::authorized, E::admitted, E::prepared};
    const Events found = and_then(prepared, {E::started, E::runner_found});
    const Events recorded = and_then(found, {E::bound, E::recorded});
    const Events live = and_then(recorded, {E::delivered, E::claimed});
    const Events stopping = and_then(live, {E::stop});
    const std::string never_was = "log_refused discard_files reply_refused free_seat";

    struct Row {
        Events events;
        std::string effects;  // of the last one
    };

    const std::vector<Row> table = {
        // The way to a living session.
        {{E::authorized}, "enqueue arm_deadline"},
        {{E::handed_over}, "disarm_deadline"},
        {{E::authorized, E::admitted}, "disarm_deadline prepare"},
        {prepared, "spawn arm_deadline"},
        {and_then(prepared, {E::started}), ""},
        {found, "bind arm_deadline"},
        {and_then(found, {E::bound}), "record"},
        {recorded, "deliver"},
        {and_then(recorded, {E::delivered}), ""},
        {live, "leave_setup disarm_deadline log_launch reply_launched"},
        // Its end.
        {and_then(live, {E::exited}), "disarm_deadline end_at_broker"},
        {and_then(live, {E::exited, E::ended}), "log_end unrecord"},
        {and_then(live, {E::exited, E::ended, E::removed}), "free_seat"},
        // A stop that it obeys, and one that it doesn't.
        {stopping, "term arm_deadline"},
        {and_then(stopping, {E::exited}), "disarm_deadline end_at_broker"},
        {and_then(stopping, {E::deadline}), "kill arm_deadline"},
        {and_then(stopping, {E::deadline, E::deadline}), "kill arm_deadline"},
        // Nothing exists yet.
        {{E::refused}, "disarm_deadline log_refused reply_refused free_seat"},
        {{E::authorized, E::deadline}, "disarm_deadline log_refused reply_refused free_seat"},
        {{E::authorized, E::admitted, E::prepare_failed},
         "leave_setup disarm_deadline " + never_was},
        // A launch that fails is killed, and watched until it is gone.
        {and_then(prepared, {E::deadline}), "leave_setup kill arm_deadline"},
        {and_then(prepared, {E::deadline, E::started}), "kill"},
        {and_then(prepared, {E::deadline, E::started, E::exited}), "disarm_deadline " + never_was},
        {and_then(prepared, {E::start_failed}), "leave_setup disarm_deadline " + never_was},
        {and_then(found, {E::exited}), "leave_setup disarm_deadline end_at_broker"},
        {and_then(found, {E::exited, E::ended}), "log_end reply_refused free_seat"},
        {and_then(found, {E::bind_refused}), "leave_setup kill arm_deadline"},
        {and_then(found, {E::bind_refused, E::exited}), "disarm_deadline " + never_was},
        {and_then(found, {E::deadline, E::bind_refused, E::exited}),
         "disarm_deadline " + never_was},
        {and_then(found, {E::bound, E::record_failed}), "leave_setup kill arm_deadline"},
        {and_then(recorded, {E::deliver_failed}), "leave_setup kill arm_deadline"},
        {and_then(recorded, {E::deadline, E::exited}), "disarm_deadline end_at_broker"},
        {and_then(recorded, {E::deadline, E::exited, E::ended}), "log_end unrecord"},
        {and_then(recorded, {E::deadline, E::exited, E::ended, E::removed}),
         "reply_refused free_seat"},
    };
    for (const Row& row : table) {
        std::string path;
        for (const E event : row.events) {
            path += std::string(to_string(event)) + " ";
        }
        CAPTURE(path);
        std::vector<EffectKind> effects;
        after(row.events, &effects);
        CHECK(text_of(effects) == row.effects);
    }
    const Events warm = {E::prepared, E::started, E::runner_found, E::recorded};
    const Events taken = and_then(warm, {E::taken});
    const std::vector<Row> of_warm = {
        {{E::prepared}, "spawn arm_deadline"},
        {{E::prepared, E::started, E::runner_found}, "arm_deadline record"},
        {warm, "leave_setup disarm_deadline"},
        // Nobody took it.
        {{E::stop, E::prepared}, "leave_setup disarm_deadline discard_files free_seat"},
        {{E::prepare_failed}, "leave_setup disarm_deadline discard_files free_seat"},
        {{E::prepared, E::start_failed}, "leave_setup disarm_deadline discard_files free_seat"},
        {{E::prepared, E::started, E::exited},
         "leave_setup disarm_deadline discard_files free_seat"},
        {{E::prepared, E::started, E::runner_found, E::record_failed},
         "leave_setup kill arm_deadline"},
        {{E::prepared, E::started, E::runner_found, E::exited},
         "leave_setup disarm_deadline unrecord"},
        {and_then(warm, {E::deadline}), ""},
        {and_then(warm, {E::exited}), "disarm_deadline unrecord"},
        {and_then(warm, {E::exited, E::removed}), "disarm_deadline discard_files free_seat"},
        {and_then(warm, {E::stop}), "kill arm_deadline"},
        {and_then(warm, {E::stop, E::exited}), "disarm_deadline unrecord"},
        // A launch took it.
        {taken, "bind arm_deadline"},
        {and_then(taken, {E::bound}), "deliver"},
        // Its entry tells of the caller once nobody waits any more, and once.
        {and_then(taken, {E::bound, E::claimed}),
         "disarm_deadline log_launch reply_launched amend"},
        {and_then(taken, {E::bound, E::delivered, E::claimed}),
         "disarm_deadline log_launch reply_launched amend"},
        {and_then(taken, {E::bound, E::delivered, E::claimed, E::claimed}), ""},
        {and_then(taken, {E::bound, E::delivered, E::exited}), "disarm_deadline end_at_broker"},
        {and_then(taken, {E::bind_refused, E::exited}), "disarm_deadline unrecord"},
        {and_then(taken, {E::bind_refused, E::exited, E::removed}), "disarm_deadline " + never_was},
        {and_then(taken, {E::broker_lost, E::exited}), "disarm_deadline end_at_broker"},
        {and_then(taken, {E::exited, E::ended, E::removed}), "reply_refused free_seat"},
    };
    for (const Row& row : of_warm) {
        std::string path = "warm ";
        for (const E event : row.events) {
            path += std::string(to_string(event)) + " ";
        }
        CAPTURE(path);
        std::vector<EffectKind> effects;
        after(row.events, &effects, begin_warm());
        CHECK(text_of(effects) == row.effects);
    }
    CHECK(text_of(begin_warm().effects) == "prepare");
    const Step first = begin();
    REQUIRE(first.effects.size() == 2);
    CHECK(first.effects[0].kind == EffectKind::authorize);
    CHECK(first.effects[1].kind == EffectKind::arm_deadline);
}

TEST_CASE("a failure of storage is told as one") {
    using E = EventKind;
    const RunState binding =
        after({E::authorized, E::admitted, E::prepared, E::started, E::runner_found, E::bound});
    CHECK(step(binding, Event{E::record_failed}).next.refusal == Refusal::storage_unavailable);
    const RunState preparing = after({E::authorized, E::admitted});
    CHECK(step(preparing, Event{E::prepare_failed, Refusal::storage_unavailable}).next.refusal ==
          Refusal::storage_unavailable);
}
