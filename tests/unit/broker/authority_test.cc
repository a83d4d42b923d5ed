// Goal: the configuration alone says who may do what and who can be written to.

#include "broker/authority.h"

#include "bench.h"

using namespace mosaic;
using namespace mosaic::broker;

TEST_CASE("a verb is free within or across roles, gated when a human decides, else absent") {
    wire::BrokerConfig config = test::acme();
    CHECK(permission_of(config, "pm", "message.send") == Permission::free);
    CHECK(permission_of(config, "coder", "message.send") == Permission::free);
    CHECK(permission_of(config, "reviewer", "message.send") == Permission::gated);
    CHECK(permission_of(config, "mute", "message.send") == Permission::absent);
    CHECK(permission_of(config, "nobody", "message.send") == Permission::absent);
    CHECK(permission_of(config, "coder", "role.launch") == Permission::absent);
    CHECK(permission_of(config, "pm", "message.sen") == Permission::absent);
}

TEST_CASE("a verb that is both free and gated is gated") {
    wire::BrokerConfig config = test::acme();
    config.roles[0].gated.push_back("message.send");
    CHECK(permission_of(config, "pm", "message.send") == Permission::gated);
}

TEST_CASE("roles and their threads have mailboxes, the human has one without threads") {
    const wire::BrokerConfig config = test::acme();
    CHECK(has_mailbox(config, {"coder", ""}));
    CHECK(has_mailbox(config, {"coder", "t1"}));
    CHECK(has_mailbox(config, {"jordan", ""}));
    CHECK_FALSE(has_mailbox(config, {"jordan", "t1"}));
    CHECK_FALSE(has_mailbox(config, {"nobody", ""}));
}
