// The system file: the operator's, but any program of theirs may have written it.

#include "config/config.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    constexpr const char* kPath = "/etc/mosaic/system.json";
    const config::Environment environment = {{"HOME", "/home/jordan"}};
    const std::string_view text = fuzz::text_of(data, size);
    const auto system = config::parse_system(text, kPath, environment);
    if (!system) {
        FUZZ_CHECK(system.error().text.starts_with(kPath));
        return 0;
    }
    FUZZ_CHECK(system->data_root.starts_with('/') && system->roles_dir.starts_with('/'));
    for (const std::string& directory : system->plugin_dirs) {
        FUZZ_CHECK(directory.starts_with('/'));
    }
    const auto again = config::parse_system(text, kPath, environment);
    FUZZ_CHECK(again && *again == *system);
    FUZZ_CHECK(config::data_root_of(*system, "", "acme").starts_with('/'));
    return 0;
}
