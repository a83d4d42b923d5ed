// A business file.

#include <set>

#include "base/ids.h"
#include "config/config.h"
#include "fuzz/fuzz.h"

namespace mosaic {
namespace {

bool complete(const config::Route& route) {
    return !route.harness.empty() && !route.provider.empty() && !route.model.empty() &&
           !route.thinking.empty();
}

void check(const config::Business& business) {
    FUZZ_CHECK(is_id(business.id) && is_id(business.human));
    for (const auto& [name, instance] : business.roles) {
        FUZZ_CHECK(is_id(name));
        FUZZ_CHECK(instance.workspace.starts_with('/'));
        FUZZ_CHECK(instance.warm >= 0);
        std::set<std::string> variables;
        for (const auto& [var, value] : instance.vars) {
            FUZZ_CHECK(variables.insert(config::variable_name(var)).second);
        }
        // An incomplete route is none, with a fallback too; an incomplete fallback is an error.
        FUZZ_CHECK(!instance.route || complete(*instance.route));
        FUZZ_CHECK(!instance.fallback || complete(*instance.fallback));
        FUZZ_CHECK(business.find(name) == &instance);
        if (instance.may_launch()) {
            FUZZ_CHECK(!instance.typed.empty());
        }
    }
    if (business.launch) {
        FUZZ_CHECK(business.roles.contains(business.launch->by));
        for (const std::string& listed : business.launch->instances) {
            FUZZ_CHECK(business.roles.contains(listed));
        }
        for (const config::ModelLimit& model : business.launch->models) {
            FUZZ_CHECK(model.max >= 0);
        }
    }
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    constexpr const char* kPath = "/etc/mosaic/businesses/acme.json";
    const std::string_view text = fuzz::text_of(data, size);
    const auto business = config::parse_business(text, kPath);
    if (!business) {
        FUZZ_CHECK(business.error().text.starts_with(kPath));
        return 0;
    }
    check(*business);
    const auto again = config::parse_business(text, kPath);
    FUZZ_CHECK(again && *again == *business);
    return 0;
}
