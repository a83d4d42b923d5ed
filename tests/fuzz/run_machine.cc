// Events into the machine of one run, in any order that the world allows: each answer comes once,
// for an effect that asked for it, as late as the input says. Whatever the order, the promises of a
// run hold, and the machine ends once the world stops being unkind. One input in two is a warm seat
// that a launch may take or not.

#include "launch/run_machine.h"

#include <vector>

#include "fuzz/fuzz.h"

namespace mosaic {
namespace {

using launch::EffectKind;
using launch::EventKind;
using launch::Phase;

// What the effects so far have made true, and what may still be answered.
class World {
  public:
    explicit World(bool warm) : warm_(warm), was_warm_(warm) {
        admitted_ = warm;
        take(warm ? launch::begin_warm() : launch::begin());
    }

    // The events that can happen now.
    [[nodiscard]] std::vector<EventKind> possible() const {
        std::vector<EventKind> out;
        add(out, authorizing_, {EventKind::authorized, EventKind::refused});
        // Only what still waits is handed over: an answer may come late, this is the host's doing.
        add(out, authorizing_ && state_.phase == Phase::authorizing, {EventKind::handed_over});
        add(out, state_.phase == Phase::warm, {EventKind::taken});
        add(out, state_.phase == Phase::queued, {EventKind::admitted});
        add(out, preparing_, {EventKind::prepared, EventKind::prepare_failed});
        add(out, spawning_, {EventKind::started, EventKind::start_failed});
        add(out, alive_ && !found_, {EventKind::runner_found});
        add(out, alive_, {EventKind::exited});
        add(out, binding_, {EventKind::bound, EventKind::bind_refused, EventKind::broker_lost});
        add(out, recording_, {EventKind::recorded, EventKind::record_failed});
        add(out, delivering_, {EventKind::delivered, EventKind::deliver_failed});
        add(out, given_ && state_.phase != Phase::over, {EventKind::claimed});
        add(out, armed_, {EventKind::deadline});
        add(out, ending_, {EventKind::ended});
        add(out, removing_, {EventKind::removed});
        add(out, state_.phase != Phase::over, {EventKind::stop});
        return out;
    }

    void happen(const launch::Event& event) {
        note(event.kind);
        const launch::Step step = launch::step(state_, event);
        const launch::Step again = launch::step(state_, event);
        FUZZ_CHECK(step.next == again.next && step.effects.size() == again.effects.size());
        take(step);
    }

    [[nodiscard]] bool over() const { return state_.phase == Phase::over; }

    [[nodiscard]] Phase phase() const { return state_.phase; }

    // What holds at the end of every run.
    void check_over() const {
        if (handed_over_) {
            FUZZ_CHECK(replies_ == 0 && freed_ == 0 && !admitted_ && log_refusals_ == 0);
            return;
        }
        FUZZ_CHECK(freed_ == 1 && replies_ == (warm_ ? 0 : 1));
        FUZZ_CHECK(!alive_ && !spawning_);
        FUZZ_CHECK(admitted_ == left_setup_);
        FUZZ_CHECK(log_ends_ + log_refusals_ == (warm_ ? 0 : 1));
        FUZZ_CHECK(!warm_ || !ended_);
        FUZZ_CHECK(!held_at_broker_ || ended_);
        FUZZ_CHECK(!entry_ || removed_);
        FUZZ_CHECK(!armed_);
    }

  private:
    static void add(std::vector<EventKind>& out, bool may, std::initializer_list<EventKind> kinds) {
        if (may) {
            // Each by itself: GCC 12 takes an insert here for one past the end, at -O3.
            for (const EventKind kind : kinds) {
                out.push_back(kind);
            }
        }
    }

    // What an event makes true of the world.
    void note(EventKind kind) {
        switch (kind) {
            case EventKind::handed_over:
                handed_over_ = true;
                [[fallthrough]];
            case EventKind::authorized:
            case EventKind::refused:
                authorizing_ = false;
                break;
            case EventKind::taken:
                warm_ = false;
                break;
            case EventKind::admitted:
                admitted_ = true;
                break;
            case EventKind::prepared:
            case EventKind::prepare_failed:
                preparing_ = false;
                break;
            case EventKind::started:
                spawning_ = false;
                alive_ = true;
                break;
            case EventKind::start_failed:
                spawning_ = false;
                break;
            case EventKind::runner_found:
                found_ = true;
                break;
            case EventKind::exited:
                alive_ = false;
                break;
            case EventKind::bound:
                bound_ = true;
                [[fallthrough]];
            case EventKind::broker_lost:
                held_at_broker_ = true;  // without an answer nobody knows
                binding_ = false;
                break;
            case EventKind::bind_refused:
                binding_ = false;
                break;
            case EventKind::recorded:
                durable_ = true;
                [[fallthrough]];
            case EventKind::record_failed:
                recording_ = false;
                break;
            case EventKind::delivered:
            case EventKind::deliver_failed:
                delivering_ = false;
                break;
            case EventKind::deadline:
                armed_ = false;
                break;
            case EventKind::ended:
                ending_ = false;
                ended_ = true;
                break;
            case EventKind::removed:
                removing_ = false;
                removed_ = true;
                break;
            case EventKind::claimed:
            case EventKind::stop:
                break;
        }
    }

    void take(const launch::Step& step) {
        for (const launch::Effect& effect : step.effects) {
            carry_out(effect.kind);
        }
        state_ = step.next;
        FUZZ_CHECK(replies_ <= 1 && freed_ <= 1);
        FUZZ_CHECK((freed_ == 1 || handed_over_) == (state_.phase == Phase::over));
    }

    void carry_out(EffectKind effect) {
        FUZZ_CHECK(freed_ == 0);  // the seat goes last
        switch (effect) {
            case EffectKind::authorize:
                authorizing_ = true;
                break;
            case EffectKind::enqueue:
                break;
            case EffectKind::prepare:
                preparing_ = true;
                break;
            case EffectKind::spawn:
                FUZZ_CHECK(!spawned_);
                spawned_ = true;
                spawning_ = true;
                break;
            case EffectKind::bind:
                FUZZ_CHECK(found_ && !warm_);
                binding_ = true;
                break;
            case EffectKind::amend:
                FUZZ_CHECK(was_warm_ && bound_ && durable_ && replies_ == 1);
                break;
            case EffectKind::record:
                FUZZ_CHECK(bound_ != warm_);
                entry_ = true;
                recording_ = true;
                break;
            case EffectKind::deliver:
                // The capability leaves only when the next host would know of the run.
                FUZZ_CHECK(bound_ && durable_ && !given_);
                given_ = true;
                delivering_ = true;
                break;
            case EffectKind::arm_deadline:
                armed_ = true;
                break;
            case EffectKind::disarm_deadline:
                armed_ = false;
                break;
            case EffectKind::leave_setup:
            case EffectKind::reply_launched:
            case EffectKind::reply_refused:
            case EffectKind::log_launch:
            case EffectKind::log_refused:
            case EffectKind::log_end:
            case EffectKind::end_at_broker:
            case EffectKind::unrecord:
            case EffectKind::discard_files:
            case EffectKind::free_seat:
            case EffectKind::term:
            case EffectKind::kill:
                carry_out_end(effect);
        }
    }

    void carry_out_end(EffectKind effect) {
        switch (effect) {
            case EffectKind::leave_setup:
                FUZZ_CHECK(admitted_ && !left_setup_);
                left_setup_ = true;
                break;
            case EffectKind::reply_launched:
                FUZZ_CHECK(given_);
                ++replies_;
                break;
            case EffectKind::reply_refused:
                ++replies_;
                break;
            case EffectKind::log_refused:
                FUZZ_CHECK(!ended_ && !warm_);
                ++log_refusals_;
                break;
            case EffectKind::log_end:
                FUZZ_CHECK(ended_);  // the broker's event is the record; the line comes after it
                ++log_ends_;
                break;
            case EffectKind::end_at_broker:
                FUZZ_CHECK(!alive_ && !ending_ && !ended_ && !warm_);
                ending_ = true;
                break;
            case EffectKind::unrecord:
                // Removed first, a role could be held for ever.
                FUZZ_CHECK(entry_ && !alive_ && (ended_ || !held_at_broker_));
                removing_ = true;
                break;
            case EffectKind::discard_files:
                FUZZ_CHECK(!bound_ && !alive_ && !spawning_ && (!entry_ || removed_));
                break;
            case EffectKind::free_seat:
                FUZZ_CHECK(!alive_ && !spawning_);
                ++freed_;
                break;
            case EffectKind::authorize:
            case EffectKind::enqueue:
            case EffectKind::prepare:
            case EffectKind::spawn:
            case EffectKind::bind:
            case EffectKind::record:
            case EffectKind::amend:
            case EffectKind::deliver:
            case EffectKind::arm_deadline:
            case EffectKind::disarm_deadline:
            case EffectKind::term:
            case EffectKind::kill:
            case EffectKind::log_launch:
                break;
        }
    }

    launch::RunState state_;
    bool warm_ = false;  // nobody has asked for it yet
    bool was_warm_ = false;
    bool handed_over_ = false;
    bool authorizing_ = false;
    bool preparing_ = false;
    bool spawning_ = false;
    bool spawned_ = false;
    bool alive_ = false;
    bool found_ = false;
    bool binding_ = false;
    bool bound_ = false;
    bool held_at_broker_ = false;
    bool recording_ = false;
    bool durable_ = false;
    bool entry_ = false;
    bool delivering_ = false;
    bool given_ = false;
    bool armed_ = false;
    bool ending_ = false;
    bool ended_ = false;
    bool removing_ = false;
    bool removed_ = false;
    bool admitted_ = false;
    bool left_setup_ = false;
    int replies_ = 0;
    int freed_ = 0;
    int log_ends_ = 0;
    int log_refusals_ = 0;
};

launch::Event event_of(EventKind kind, uint8_t detail) {
    launch::Event event;
    event.kind = kind;
    event.refusal = static_cast<Refusal>(detail % kRefusals);
    event.reason = detail % 2 == 0 ? EndReason::stopped : EndReason::killed;
    return event;
}

// Once nothing goes wrong any more a run that was told to stop is over in a bounded number of
// steps.
void drive_home(World& world) {
    constexpr int kStepsMax = 40;
    if (!world.over()) {
        world.happen(event_of(EventKind::stop, 0));
    }
    for (int i = 0; i < kStepsMax && !world.over(); ++i) {
        // Killed processes exit. A claim and one more stop may come for ever and move nothing.
        EventKind next = EventKind::stop;
        for (const EventKind kind : world.possible()) {
            const bool moves = kind != EventKind::claimed && kind != EventKind::stop;
            const bool exits = kind == EventKind::exited && world.phase() >= Phase::stopping;
            if (exits || (moves && next == EventKind::stop)) {
                next = kind;
            }
        }
        FUZZ_CHECK(next != EventKind::stop);
        world.happen(event_of(next, 0));
    }
    FUZZ_CHECK(world.over());
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    fuzz::Choices choices(data, size);
    World world(choices.byte() % 2 == 1);
    while (!choices.empty()) {
        const std::vector<launch::EventKind> possible = world.possible();
        if (possible.empty()) {
            break;
        }
        const launch::EventKind kind = possible[choices.below(possible.size())];
        world.happen(event_of(kind, choices.byte()));
    }
    drive_home(world);
    world.check_over();
    return 0;
}
