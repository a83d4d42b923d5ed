// A harness module's harness.json, and the templates in it.

#include "fuzz/fuzz.h"
#include "harness/module.h"
#include "harness/template.h"

namespace mosaic {
namespace {

// A name that is joined to the module's directory.
bool stays_below(std::string_view name) {
    if (name.empty() || name.front() == '/') {
        return false;
    }
    std::string_view rest = name;
    while (!rest.empty()) {
        const size_t slash = std::min(rest.find('/'), rest.size());
        if (rest.substr(0, slash) == "..") {
            return false;
        }
        rest.remove_prefix(std::min(slash + 1, rest.size()));
    }
    return true;
}

void check_template(std::string_view text) {
    const auto parsed = harness::Template::parse(text, "text");
    if (!parsed) {
        FUZZ_CHECK(parsed.error().text.starts_with("text"));
        return;
    }
    harness::Values values;
    for (const std::string& name : parsed->names()) {
        values[name] = "\"$${x}\n";
    }
    // A value is never taken for a template, and a document's string stays one.
    const std::string plain = parsed->render(values, harness::Escape::none);
    FUZZ_CHECK(!parsed->names().empty() || plain.size() <= text.size());
    const std::string escaped = parsed->render(values, harness::Escape::json);
    FUZZ_CHECK(escaped.size() >= plain.size() || !parsed->names().empty());
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    constexpr const char* kPath = "/modules/script/harness.json";
    const std::string_view text = fuzz::text_of(data, size);
    check_template(text);
    const auto parsed = harness::parse_module(text, kPath);
    if (!parsed) {
        FUZZ_CHECK(parsed.error().text.starts_with(kPath));
        return 0;
    }
    FUZZ_CHECK(stays_below(parsed->module.adapter));
    for (const auto* names : {&parsed->bundle_sources, &parsed->file_names}) {
        for (const std::string& name : *names) {
            FUZZ_CHECK(stays_below(name));
        }
    }
    for (const std::string& name : parsed->module.thread_directories) {
        FUZZ_CHECK(stays_below(name));
    }
    for (const std::string& path : parsed->module.control_paths) {
        FUZZ_CHECK(stays_below(path));
    }
    FUZZ_CHECK(parsed->module.gate_timeout_ms > 0);
    FUZZ_CHECK(!parsed->module.thinking.empty());
    for (const auto& [name, variable] : parsed->module.environment) {
        FUZZ_CHECK(harness::unknown_placeholder(parsed->module, variable).empty());
    }
    const auto again = harness::parse_module(text, kPath);
    FUZZ_CHECK(again && again->module == parsed->module);
    return 0;
}
