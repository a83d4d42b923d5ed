// What becomes of a change of the configuration.

#include <doctest/doctest.h>

#include <string>

#include "host/config_keeper.h"
#include "host/settings.h"
#include "wire/codes.h"

using namespace mosaic;
using host::ChildResult;
using host::Written;

namespace {

ChildResult exited(int code) {
    ChildResult out;
    out.started = true;
    out.exit.exit_code = code;
    return out;
}

ChildResult killed(bool at_its_deadline) {
    ChildResult out;
    out.started = true;
    out.exit.signal = 9;
    out.timed_out = at_its_deadline;
    return out;
}

}  // namespace

TEST_CASE("a child that failed after its rename has changed the file") {
    for (const ChildResult& bad : {ChildResult{}, exited(1), killed(false), killed(true)}) {
        CHECK(written(bad, true) == Written::unsure);
        CHECK(written(bad, false) == Written::no);
    }
    CHECK(written(exited(exit_code::kFine), true) == Written::yes);
    CHECK(written(exited(exit_code::kRefused), false) == Written::changed_before);
}

TEST_CASE("more roles than the broker can be told of are refused by their file's name") {
    host::Settings settings;
    settings.business.file = "/etc/mosaic/acme.json";
    const auto grow_to = [&](size_t roles) {
        while (settings.business.roles.size() < roles) {
            const std::string number = std::to_string(settings.business.roles.size());
            config::Instance one;
            one.name = std::string(64 - number.size(), 'n') + number;
            settings.business.roles.emplace(one.name, one);
        }
        return check_broker_config(settings);
    };
    CHECK(grow_to(2'000).has_value());
    const auto refused = grow_to(20'000);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().text.starts_with("/etc/mosaic/acme.json: /roles: "));
}
