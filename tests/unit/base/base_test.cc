#include <doctest/doctest.h>

#include "base/file_time.h"
#include "base/ids.h"
#include "base/instant.h"
#include "base/secret.h"
#include "base/utf8.h"

using namespace mosaic;

TEST_CASE("ids are lower case, short and never a path") {
    for (const char* good : {"a", "pm", "coder-2", "0", "a-"}) {
        CHECK(is_id(good));
    }
    CHECK(is_id(std::string(64, 'a')));
    for (const char* bad : {"", "-a", "A", "a.b", "..", "a/b", "a b", "é", "a_b"}) {
        CAPTURE(bad);
        CHECK_FALSE(is_id(bad));
    }
    CHECK_FALSE(is_id(std::string(65, 'a')));
    CHECK_FALSE(is_id(std::string_view("a\0b", 3)));
}

TEST_CASE("run ids are r and twelve hex digits") {
    const unsigned char random[6] = {0, 1, 0xAB, 0xFF, 0x10, 0x9C};
    CHECK(run_id_from(random) == "r0001abff109c");
    CHECK(is_run_id("r0001abff109c"));
    CHECK_FALSE(is_run_id("r0001abff109"));
    CHECK_FALSE(is_run_id("r0001ABFF109C"));
    CHECK_FALSE(is_run_id("x0001abff109c"));
}

TEST_CASE("times are ISO 8601 in UTC with milliseconds") {
    CHECK(iso8601(0) == "1970-01-01T00:00:00.000Z");
    CHECK(iso8601(1'767'225'599'007) == "2025-12-31T23:59:59.007Z");
}

TEST_CASE("no time that a file's owner sets is out of bounds") {
    CHECK(file_time_ns(1'767'225'599, 7) == 1'767'225'599'000'000'007);
    CHECK(file_time_ns(-5, 999'999'999) == 999'999'999);
    CHECK(file_time_ns(INT64_MIN, 0) == 0);
    CHECK(file_time_ns(INT64_MAX, 999'999'999) > file_time_ns(9'000'000'000, 0));
    CHECK(iso8601(file_time_ns(INT64_MAX, 0) / 1'000'000).starts_with("2262-"));
}

TEST_CASE("what goes to a terminal can't drive it") {
    CHECK(escape_for_terminal("a\x1b]52;c;x\x07z") == "a\\u001b]52;c;x\\u0007z");
    CHECK(escape_for_terminal("tab\tline\n") == "tab\tline\n");
    CHECK(escape_for_terminal("x\xE2\x80\xAEy") == "x\\u202ey");
    CHECK(escape_for_terminal("\xC2\x9B") == "\\u009b");
    CHECK(escape_for_terminal("\xFFok") == "\xEF\xBF\xBDok");
    CHECK(escape_for_terminal("gr\xC3\xBC\xC3\x9F") == "gr\xC3\xBC\xC3\x9F");
    CHECK(escape_for_terminal("a\xD8\x9C") == "a\\u061c");
}

TEST_CASE("what a terminal would show as nothing can be made visible") {
    CHECK(escape_invisible("a\x1b\xE2\x80\xAE \xC3\xBC") == "a\\u001b\\u202e \xC3\xBC");
    CHECK(escape_invisible("\xC2\xAD|\xE2\x80\x8B|\xE2\x81\xA0|\xE3\x85\xA4|\xEF\xBB\xBF") ==
          "\\u00ad|\\u200b|\\u2060|\\u3164|\\ufeff");
    // A tag and a variation selector, in halves as JSON has them.
    CHECK(escape_invisible("x\xF3\xA0\x81\xA5\xF3\xA0\x87\xAFy") ==
          "x\\udb40\\udc65\\udb40\\uddefy");
    const std::string seen = "\xF0\x9F\x98\x80 \xE2\x82\xAC \xE3\x81\x82";
    CHECK(escape_invisible(seen) == seen);
    CHECK(escape_for_terminal("a\xE2\x80\x8B") == "a\xE2\x80\x8B");
}

TEST_CASE("what a log quotes stays on the log's own line") {
    CHECK(one_line("no tool \"x\nmosaic-host: all is well\tnow\"\x1b") ==
          "no tool \"x mosaic-host: all is well now\"\\u001b");
    CHECK(escape_path("/w/a b\nc\td\x1b[m") == "/w/a b\\nc\\td\\u001b[m");
    CHECK(escape_path("/w/\xFF\xC3\xBC\xC3") == "/w/\\xff\xC3\xBC\\xc3");
}

TEST_CASE("a secret moves and leaves nothing at its source") {
    std::string text = "0123456789abcdef0123456789abcdef";
    Secret a(std::move(text));
    CHECK(text.empty());  // NOLINT(bugprone-use-after-move): the point of the test
    Secret b(std::move(a));
    CHECK(a.empty());  // NOLINT(bugprone-use-after-move)
    CHECK(b.reveal() == "0123456789abcdef0123456789abcdef");
}
