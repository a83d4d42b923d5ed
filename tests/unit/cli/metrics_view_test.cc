// Goal: --json has each family with its metrics as data, histograms whole. Method: a written text,
// read and printed.

#include "cli/metrics_view.h"

#include <doctest/doctest.h>

#include <limits>

#include "metrics/writer.h"

using namespace mosaic;
using namespace mosaic::cli;

namespace {

std::string json_of(const std::string& text) {
    const auto families = metrics::read_text(text);
    REQUIRE_MESSAGE(families, (families ? "" : families.error().text));
    return json::dump(metrics_value(*families));
}

}  // namespace

TEST_CASE("families are printed with their metrics, whole numbers as such") {
    metrics::Writer w;
    w.family("a_total", metrics::Type::counter, "A.");
    w.sample({{"x", "1"}}, uint64_t{3});
    w.sample({{"x", "2"}}, 0.5);
    w.family("b", metrics::Type::gauge, "B.");
    w.sample(std::numeric_limits<double>::infinity());
    CHECK(json_of(w.take()) ==
          R"([{"name":"a_total","type":"counter","help":"A.","metrics":[)"
          R"({"labels":{"x":"1"},"value":3},{"labels":{"x":"2"},"value":0.5}]},)"
          R"({"name":"b","type":"gauge","help":"B.","metrics":[{"labels":{},"value":"+Inf"}]}])");
}

TEST_CASE("the series of a histogram are one metric") {
    const std::string text =
        "# HELP h H.\n# TYPE h histogram\n"
        "h_bucket{x=\"1\",le=\"0.5\"} 1\nh_bucket{x=\"1\",le=\"+Inf\"} 2\n"
        "h_sum{x=\"1\"} 1.25\nh_count{x=\"1\"} 2\n"
        "h_bucket{x=\"2\",le=\"0.5\"} 0\nh_bucket{x=\"2\",le=\"+Inf\"} 0\n"
        "h_sum{x=\"2\"} 0\nh_count{x=\"2\"} 0\n";
    CHECK(json_of(text) ==
          R"([{"name":"h","type":"histogram","help":"H.","metrics":[)"
          R"({"labels":{"x":"1"},"buckets":{"0.5":1,"+Inf":2},"sum":1.25,"count":2},)"
          R"({"labels":{"x":"2"},"buckets":{"0.5":0,"+Inf":0},"sum":0,"count":0}]}])");
}
