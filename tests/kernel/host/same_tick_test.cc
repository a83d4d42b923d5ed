// What the link does when one tick brings several completions (TRAP-27).

#include "host/broker_link.h"
#include "scripted_broker.h"
#include "wire/messages.h"

using namespace mosaic;
using namespace mosaic::test;
using launch::EventKind;

// A second copy of bindLaunch would make a second capability, and the first one, which the runner
// has by then, would be refused.
TEST_CASE("each request goes out once, whatever comes in the tick in which one was sent") {
    for (const bool last_first : {false, true}) {
        CAPTURE(last_first);
        BrokerRig rig;
        if (!rig.ok()) {
            return;
        }
        rig.broker->start();
        rig.accept_broker();
        rig.serve_start();
        rig.last_first = last_first;
        rig.both_ways = 0;
        for (int64_t round = 1; round <= 3; ++round) {
            const auto answered = static_cast<size_t>(2 * round);
            rig.broker->authorize(kSlot, authorize_args());
            const int64_t first = rig.next_request("authorizeLaunch").id;
            rig.say(wire::reply_ok(first, empty_object()));
            rig.run_until([&] { return rig.count(kSlot, EventKind::authorized) == answered - 1; });
            // The next read is armed now, and the send after it: one tick brings both.
            rig.say_unread(wire::Request{round, "claimed", "", wire::RunArgs{kRunName}.to_value()});
            rig.broker->authorize(kSlot, authorize_args());
            const wire::Request second = rig.next_request("authorizeLaunch");
            CHECK(second.id > first);
            CHECK(rig.next_reply().id == round);
            rig.say(wire::reply_ok(second.id, empty_object()));
            rig.run_until([&] { return rig.count(kSlot, EventKind::authorized) == answered; });
        }
        CHECK(rig.both_ways == 3);
    }
}
