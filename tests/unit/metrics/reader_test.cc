// Goal: what the writer writes is read back as it was, and nothing else is taken for it. Method: a
// round trip with everything that needs care, bad lines one by one, quantiles by hand.

#include "metrics/reader.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "metrics/writer.h"

using namespace mosaic;
using namespace mosaic::metrics;

TEST_CASE("a text that was written reads back") {
    const std::string odd = "a \"b\" \\ {c=\"d\"},\ne}";
    Histogram histogram;
    histogram.observe(milliseconds(4));
    Writer writer;
    writer.family("a_total", Type::counter, odd);
    writer.sample({{"x", odd}, {"y", ""}}, uint64_t{18'000'000'000'000});
    writer.family("b_seconds", Type::histogram, "");
    writer.histogram({{"x", odd}}, histogram);
    writer.family("c", Type::gauge, "none");
    writer.sample(std::numeric_limits<double>::infinity());
    const auto families = read_text(writer.take());
    REQUIRE_MESSAGE(families, (families ? "" : families.error().text));
    REQUIRE(families->size() == 3);
    const Family& first = (*families)[0];
    CHECK(first.name == "a_total");
    CHECK(first.type == "counter");
    CHECK(first.help == odd);
    REQUIRE(first.samples.size() == 1);
    CHECK(first.samples[0].labels == std::map<std::string, std::string>{{"x", odd}, {"y", ""}});
    CHECK(value_of(*families, "a_total", {{"x", odd}}) == 18e12);
    CHECK_FALSE(value_of(*families, "a_total", {{"x", "other"}}).has_value());
    CHECK_FALSE(value_of(*families, "nothing").has_value());
    CHECK(value_of(*families, "c") == std::numeric_limits<double>::infinity());
    CHECK((*families)[1].samples.size() == Histogram::kBuckets + 2);
    const Buckets buckets = buckets_of((*families)[1]);
    CHECK(buckets.at(0.003) == 0);
    CHECK(buckets.at(0.005) == 1);
    CHECK(buckets.rbegin()->second == 1);
}

TEST_CASE("nothing is a text without families") {
    const auto families = read_text("");
    REQUIRE(families);
    CHECK(families->empty());
}

TEST_CASE("what isn't such a text is refused with its line") {
    const std::string head = "# HELP a h\n# TYPE a gauge\n";
    const std::string timed = "# HELP h h\n# TYPE h histogram\n";
    for (const std::string& text : {
             std::string("a 1\n"),
             std::string("# HELP a h\n"),
             std::string("# TYPE a gauge\n"),
             std::string("# HELP a h\na 1\n"),
             std::string("# HELP a h\n# TYPE b gauge\n"),
             std::string("# HELP a h\n# TYPE a summary\n"),
             std::string("# HELP a \\h\n# TYPE a gauge\n"),
             head + "a 1",
             head + "\n",
             head + "b 1\n",
             head + "a\n",
             head + "a  1\n",
             head + "a 1 2\n",
             head + "a 0x1\n",
             head + "a inf\n",
             head + "a nan\n",
             head + "a 1e999\n",
             head + "a{} 1\n",
             head + "a{b=\"c\"}1\n",
             head + "a{b=\"c\" 1\n",
             head + "a{b=\"c} 1\n",
             head + "a{b=\"c\\\n",
             head + "a{b=\"\\c\"} 1\n",
             head + "a{b=\"c\",b=\"d\"} 1\n",
             head + "a{__b=\"c\"} 1\n",
             head + "a{le=\"1\"} 1\n",
             head + head,
             head + "# TYPE a gauge\n",
             timed + "h 1\n",
             timed + "h_bucket 1\n",
             timed + "h_bucket{le=\"x\"} 1\n",
             timed + "h_sum{le=\"1\"} 1\n",
         }) {
        CAPTURE(text);
        const auto families = read_text(text);
        REQUIRE_FALSE(families);
        CHECK(families.error().text.starts_with("line "));
    }
}

TEST_CASE("a quantile lies within its bucket, in proportion") {
    const double infinity = std::numeric_limits<double>::infinity();
    const Buckets buckets = {{1, 0}, {2, 10}, {4, 10}, {8, 20}, {infinity, 20}};
    CHECK(*quantile(buckets, 0.25) == doctest::Approx(1.5));
    CHECK(*quantile(buckets, 0.5) == doctest::Approx(2));
    CHECK(*quantile(buckets, 0.75) == doctest::Approx(6));
    CHECK(*quantile(buckets, 1) == doctest::Approx(8));
    CHECK(*quantile({{1, 4}, {infinity, 4}}, 0.5) == doctest::Approx(0.5));
    // Past the last bound nothing more is known than that bound.
    CHECK(*quantile({{1, 0}, {2, 1}, {infinity, 100}}, 0.99) == doctest::Approx(2));
    CHECK_FALSE(quantile({}, 0.5).has_value());
    CHECK_FALSE(quantile({{1, 0}, {infinity, 0}}, 0.5).has_value());
}
