// Events into the machine of one leftover of a dead host.

#include "launch/recovery_machine.h"

#include <vector>

#include "fuzz/fuzz.h"

namespace mosaic {
namespace {

using launch::LeftoverEffect;
using launch::LeftoverEvent;
using launch::LeftoverPhase;

class World {
  public:
    explicit World(const launch::LeftoverFacts& facts) : facts_(facts), alive_(facts.alive) {
        take(launch::begin_leftover(facts));
    }

    [[nodiscard]] std::vector<LeftoverEvent> possible() const {
        std::vector<LeftoverEvent> out;
        if (alive_ && killed_) {
            out.push_back(LeftoverEvent::gone);
        }
        if (ending_) {
            out.push_back(LeftoverEvent::ended);
            out.push_back(LeftoverEvent::ended_before);
        }
        if (removing_) {
            out.push_back(LeftoverEvent::removed);
        }
        if (armed_) {
            out.push_back(LeftoverEvent::deadline);
        }
        return out;
    }

    void happen(LeftoverEvent event) {
        switch (event) {
            case LeftoverEvent::gone:
                alive_ = false;
                break;
            case LeftoverEvent::deadline:
                armed_ = false;
                break;
            case LeftoverEvent::ended:
            case LeftoverEvent::ended_before:
                ending_ = false;
                ended_ = true;
                logged_before_ = event == LeftoverEvent::ended_before;
                break;
            case LeftoverEvent::removed:
                removing_ = false;
                removed_ = true;
                break;
        }
        take(launch::step(state_, event));
    }

    [[nodiscard]] bool over() const { return state_.phase == LeftoverPhase::over; }

    void check_over() const {
        FUZZ_CHECK(settled_ == 1 && !alive_);
        FUZZ_CHECK(ended_ == facts_.in_broker && removed_ == facts_.recorded);
        // One line of each end, written by whoever got there first.
        FUZZ_CHECK(lines_ == (ended_ && !logged_before_ ? 1 : 0));
        FUZZ_CHECK(reports_ <= 1);
    }

  private:
    void take(const launch::LeftoverStep& step) {
        for (const LeftoverEffect effect : step.effects) {
            carry_out(effect);
        }
        state_ = step.next;
    }

    void carry_out(LeftoverEffect effect) {
        FUZZ_CHECK(settled_ == 0);
        switch (effect) {
            case LeftoverEffect::kill:
                FUZZ_CHECK(facts_.alive);  // nothing that didn't match is ever signalled
                killed_ = true;
                break;
            case LeftoverEffect::arm_deadline:
                armed_ = true;
                break;
            case LeftoverEffect::report_stuck:
                ++reports_;
                break;
            case LeftoverEffect::end_at_broker:
                FUZZ_CHECK(!alive_ && facts_.in_broker && !ended_);
                ending_ = true;
                break;
            case LeftoverEffect::log_end:
                FUZZ_CHECK(ended_);
                ++lines_;
                break;
            case LeftoverEffect::unrecord:
                FUZZ_CHECK(!alive_ && facts_.recorded && ended_ == facts_.in_broker);
                removing_ = true;
                break;
            case LeftoverEffect::settle:
                FUZZ_CHECK(!alive_);
                ++settled_;
                break;
        }
    }

    launch::LeftoverFacts facts_;
    launch::LeftoverState state_;
    bool alive_ = false;
    bool killed_ = false;
    bool armed_ = false;
    bool ending_ = false;
    bool ended_ = false;
    bool logged_before_ = false;
    bool removing_ = false;
    bool removed_ = false;
    int settled_ = 0;
    int lines_ = 0;
    int reports_ = 0;
};

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    fuzz::Choices choices(data, size);
    World world({.alive = choices.coin(), .in_broker = choices.coin(), .recorded = choices.coin()});
    while (!choices.empty()) {
        const std::vector<launch::LeftoverEvent> possible = world.possible();
        if (possible.empty()) {
            break;
        }
        world.happen(possible[choices.below(possible.size())]);
    }
    // `deadline` is the last of the possible ones: without it the rest goes through.
    for (int i = 0; i < 8 && !world.over(); ++i) {
        world.happen(world.possible().front());
    }
    FUZZ_CHECK(world.over());
    world.check_over();
    return 0;
}
