// Goal: what is installed can't be told to kill itself, to fail, or to take another time for the
// right one. Method: the variables for that are in the programs for the tests and not in the
// product's.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "crash/stage.h"

using namespace mosaic;
using namespace mosaic::crash;
using namespace mosaic::e2e;

namespace {

// How many of the installed programs hold the text.
int count_holding(const std::string& prefix, std::string_view what) {
    int found = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(prefix)) {
        const std::string name = entry.path().filename();
        if (entry.is_regular_file() && name.starts_with("mosaic")) {
            found += contains(read_text(entry.path()), what) ? 1 : 0;
        }
    }
    return found;
}

}  // namespace

TEST_CASE("the product has no crash points") {
    const Stage stage;
    for (const char* text :
         {"MOSAIC_CRASH", "MOSAIC_DISK_ERRORS", "MOSAIC_WALL_CLOCK", "leftover.", "/passed"}) {
        CAPTURE(text);
        CHECK(count_holding(stage.product(), text) == 0);
    }
    CHECK(count_holding(crash_prefix(), "MOSAIC_CRASH") == 2);
    CHECK(count_holding(crash_prefix(), "MOSAIC_DISK_ERRORS") == 1);
}
