// Goal: the text is what the format's page says, to the byte. Method: small families compared
// whole; the rules about names, escapes and numbers one by one.

#include "metrics/writer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mosaic;
using namespace mosaic::metrics;

TEST_CASE("a family is its help, its type and its samples") {
    Writer writer;
    writer.family("mosaic_launches_total", Type::counter, "Launches.");
    writer.sample({{"result", "launched"}}, Counter{7});
    writer.sample({{"result", "busy"}, {"by", "x"}}, uint64_t{0});
    writer.family("mosaic_sessions", Type::gauge, "Sessions now.");
    writer.sample(uint64_t{3});
    writer.sample({{"part", "half"}}, 0.5);
    CHECK(writer.take() ==
          "# HELP mosaic_launches_total Launches.\n"
          "# TYPE mosaic_launches_total counter\n"
          "mosaic_launches_total{result=\"launched\"} 7\n"
          "mosaic_launches_total{result=\"busy\",by=\"x\"} 0\n"
          "# HELP mosaic_sessions Sessions now.\n"
          "# TYPE mosaic_sessions gauge\n"
          "mosaic_sessions 3\n"
          "mosaic_sessions{part=\"half\"} 0.5\n");
}

TEST_CASE("a histogram has cumulative buckets up to infinity, a sum and a count") {
    Histogram histogram;
    histogram.observe(Duration{50'000});  // 50 us: the first bound
    histogram.observe(milliseconds(4));
    histogram.observe(seconds(100));
    Writer writer;
    writer.family("t_seconds", Type::histogram, "T.");
    writer.histogram({{"stage", "bound"}}, histogram);
    const std::string text = writer.take();
    CHECK(
        text.starts_with("# HELP t_seconds T.\n# TYPE t_seconds histogram\n"
                         "t_seconds_bucket{stage=\"bound\",le=\"0.00005\"} 1\n"
                         "t_seconds_bucket{stage=\"bound\",le=\"0.0001\"} 1\n"));
    CHECK(text.find("{stage=\"bound\",le=\"0.003\"} 1\n"
                    "t_seconds_bucket{stage=\"bound\",le=\"0.005\"} 2\n") != std::string::npos);
    CHECK(
        text.ends_with("t_seconds_bucket{stage=\"bound\",le=\"60\"} 2\n"
                       "t_seconds_bucket{stage=\"bound\",le=\"+Inf\"} 3\n"
                       "t_seconds_sum{stage=\"bound\"} 100.00405\n"
                       "t_seconds_count{stage=\"bound\"} 3\n"));
}

TEST_CASE("a histogram without labels has only its bound") {
    Writer writer;
    writer.family("t_seconds", Type::histogram, "T.");
    writer.histogram(Histogram{});
    const std::string text = writer.take();
    CHECK(text.find("\nt_seconds_bucket{le=\"0.00005\"} 0\n") != std::string::npos);
    CHECK(text.ends_with("\nt_seconds_sum 0\nt_seconds_count 0\n"));
}

TEST_CASE("label values escape backslash, quote and newline, help texts all but the quote") {
    Writer writer;
    writer.family("m", Type::gauge, "back\\slash, \"quote\", new\nline");
    writer.sample({{"a", "back\\slash, \"quote\", new\nline"}, {"b", ""}}, uint64_t{1});
    CHECK(writer.take() ==
          "# HELP m back\\\\slash, \"quote\", new\\nline\n"
          "# TYPE m gauge\n"
          "m{a=\"back\\\\slash, \\\"quote\\\", new\\nline\",b=\"\"} 1\n");
}

TEST_CASE("what isn't UTF-8 is replaced") {
    Writer writer;
    writer.family("m", Type::gauge, "h\xff");
    writer.sample({{"a", "\xc3("}}, uint64_t{1});
    CHECK(writer.take() == "# HELP m h\xef\xbf\xbd\n# TYPE m gauge\nm{a=\"\xef\xbf\xbd(\"} 1\n");
}

TEST_CASE("numbers read back as what they were") {
    CHECK(number_text(0) == "0");
    CHECK(number_text(-1.5) == "-1.5");
    CHECK(number_text(0.1) == "0.1");
    CHECK(number_text(1e300) == "1e+300");
    CHECK(number_text(1e-9) == "1e-09");
    CHECK(number_text(0.0001) == "0.0001");
    CHECK(number_text(123456789) == "123456789");
    CHECK(number_text(-0.000001234567890123456) == "-0.000001234567890123456");
    CHECK(number_text(1764522000.123) == "1764522000.123");
    CHECK(number_text(std::nan("")) == "NaN");
    CHECK(number_text(std::numeric_limits<double>::infinity()) == "+Inf");
    CHECK(number_text(-std::numeric_limits<double>::infinity()) == "-Inf");
}

TEST_CASE("names follow the format's patterns") {
    for (const char* name : {"a", "_", ":", "A9:_z"}) {
        CHECK(is_metric_name(name));
    }
    for (const char* name : {"", "9a", "a-b", "a b", "\xc3\xa4"}) {
        CHECK_FALSE(is_metric_name(name));
        CHECK_FALSE(is_label_name(name));
    }
    CHECK(is_label_name("a_9"));
    CHECK_FALSE(is_label_name("a:b"));
    CHECK_FALSE(is_label_name("__name__"));
}
