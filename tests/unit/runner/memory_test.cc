// Goal: what the runner gives back to the allocator holds nothing any more. Method: its operators
// of new and delete, with a free(3) of the test's in front of the real one (--wrap=free).

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace {

const void* watched = nullptr;
size_t watched_bytes = 0;
bool came = false;
bool was_empty = false;

void watch(const void* block, size_t bytes) {
    watched = block;
    watched_bytes = bytes;
    came = false;
    was_empty = false;
}

}  // namespace

extern "C" void __real_free(void* block);

extern "C" void __wrap_free(void* block) {
    if (block != nullptr && block == watched) {
        const auto* const bytes = static_cast<const char*>(block);
        came = true;
        was_empty = std::all_of(bytes, bytes + watched_bytes, [](char c) { return c == 0; });
        watched = nullptr;
    }
    __real_free(block);
}

TEST_CASE("memory is overwritten before it is given back") {
    SUBCASE("a string's") {
        auto* const text = new std::string(1000, 's');
        watch(text->data(), text->size());
        delete text;
    }
    SUBCASE("one object's") {
        auto* const number = new size_t(0x5555'5555);
        watch(number, sizeof(*number));
        delete number;
    }
    SUBCASE("an array's") {
        auto* const bytes = new char[4096];
        std::fill_n(bytes, 4096, 's');
        watch(bytes, 4096);
        delete[] bytes;
    }
    CHECK(came);
    CHECK(was_empty);
}
