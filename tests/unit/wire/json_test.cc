// Goal: one verdict and one value for every document, whichever parser read it. Method: this file
// is compiled into two binaries, one per parser; both must pass the same table.

#include "wire/json.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using mosaic::json::parse;
using mosaic::json::Value;

TEST_CASE("documents that are read, and what they dump to") {
    const std::vector<std::pair<std::string, std::string>> table = {
        {R"({"a":1,"b":[true,false,null],"c":{"d":"x"}})",
         R"({"a":1,"b":[true,false,null],"c":{"d":"x"}})"},
        {" [ 1 , -2 , 3.5 , 1e3 ] \n", "[1,-2,3.5,1000.0]"},
        {"\"plain\"", "\"plain\""},
        {"17", "17"},
        {"-0", "0"},
        {"true", "true"},
        {"null", "null"},
        {"{}", "{}"},
        {"[]", "[]"},
        {R"("\u0041\u00e9\ud83d\ude00")", "\"A\xC3\xA9\xF0\x9F\x98\x80\""},
        {R"("a\u0000b")", R"("a\u0000b")"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"[[[[[[[[1]]]]]]]]", "[[[[[[[[1]]]]]]]]"},
        {"[1e-400,1E+000000002 , 2.5e-1]", "[0.0,100.0,0.25]"},
        {"[1e000,0.123123456789052345678]", "[1.0,0.12312345678905234]"},
        {"[-0.0000000000000000000000000001e28,1.7976931348623157e308]",
         "[-1.0,1.7976931348623157e+308]"},
    };
    for (const auto& [text, expected] : table) {
        CAPTURE(text);
        const auto value = parse(text);
        REQUIRE_MESSAGE(value.has_value(), (value ? "" : value.error().text));
        CHECK(mosaic::json::dump(*value) == expected);
    }
}

TEST_CASE("documents that are refused") {
    const std::vector<std::string> table = {
        "",
        "  ",
        "{",
        "[1,",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":1}{\"b\":2}",
        "{\"a\":1} x",
        "1 2",
        "1,2",
        "[1]]",
        "tru",
        "nonsense",
        "nul",
        "nulll",
        "[nope]",
        "{\"a\":nil}",
        "fals",
        "truth",
        "{\"instance\":\"a\",\"x\":tru}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"o\":{\"k\":1,\"k\":1}}",
        "9223372036854775808",
        "18446744073709551616",
        "1e400",
        "[1.e1]",
        "[1e]",
        "[1.5x]",
        "[01.5]",
        "[-.5]",
        "[1.5e+]",
        "1e0000000001",
        "-1E-279223372036854775808",
        "01",
        "+1",
        ".5",
        "1.",
        "NaN",
        "\"\\ud800\"",
        "\"\\x\"",
        "\"a\nb\"",
        "\"open",
        "'a'",
        "\xEF\xBB\xBF{}",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"\xFF\"",
        "[[[[[[[[[1]]]]]]]]]",
        std::string("{}\0", 3),
        "// comment\n{}",
    };
    for (const std::string& text : table) {
        CAPTURE(text);
        const auto value = parse(text);
        CHECK_FALSE(value.has_value());
        if (!value) {
            CHECK_FALSE(value.error().text.empty());
        }
    }
}

TEST_CASE("a deep document is refused without deep recursion") {
    const std::string text(100'000, '[');
    CHECK_FALSE(parse(text).has_value());
}

TEST_CASE("a line full of keys is read in time and a key that stands twice among them is found") {
    // As many as a frame holds. Compared with one another they would take minutes.
    std::string text = "{";
    for (int i = 0; text.size() < 1024 * 1024 - 32; ++i) {
        text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
    }
    const auto value = parse(text + "}");
    REQUIRE(value.has_value());
    CHECK(value->object()->size() > 80'000);
    CHECK_FALSE(parse(text + ",\"0\":1}").has_value());
    CHECK_FALSE(parse(text + ",\"77\":1}").has_value());
}

TEST_CASE("a reader names file, pointer and expectation, and refuses what nobody asked for") {
    const auto value = parse(R"({"id":"acme","roles":{"a/b":7},"extra":1})");
    REQUIRE(value);
    {
        mosaic::json::Reader r(*value, "acme.json");
        CHECK(r.id("id") == "acme");
        mosaic::ignore(r.object("roles"), "asked for");
        const auto done = r.done();
        REQUIRE_FALSE(done);
        CHECK(done.error().text == "acme.json: /extra: unknown key");
    }
    {
        mosaic::json::Reader r(*value->find("roles"), "acme.json", "/roles");
        CHECK(r.string("a/b").empty());
        CHECK(r.done().error().text ==
              "acme.json: /roles/a~1b: expected a string, found an integer");
    }
    {
        mosaic::json::Reader r(*value, "acme.json");
        CHECK(r.string("human").empty());
        CHECK(r.done().error().text ==
              "acme.json: /human: is missing; expected a string; there is an unknown key, /id");
    }
}

TEST_CASE("dump keeps a document that isn't UTF-8 readable") {
    CHECK(mosaic::json::dump(Value(std::string("a\xFF"))) == "\"a\xEF\xBF\xBD\"");
}
