// A request on the metrics' port, whole or in pieces, and a text of metrics.

#include "fuzz/fuzz.h"
#include "metrics/http.h"
#include "metrics/reader.h"
#include "metrics/writer.h"

namespace mosaic {
namespace {

// However it arrives, it has one answer, and that comes by the limit.
void check_request(std::string_view bytes) {
    const metrics::HttpAsk all = metrics::judge_request(bytes);
    FUZZ_CHECK(bytes.size() < metrics::kHttpHeadBytesMax || all != metrics::HttpAsk::incomplete);
    for (size_t size = 0; size <= bytes.size(); size += 1 + size / 16) {
        const metrics::HttpAsk part = metrics::judge_request(bytes.substr(0, size));
        FUZZ_CHECK(part == metrics::HttpAsk::incomplete || part == all);
    }
    if (all != metrics::HttpAsk::incomplete) {
        FUZZ_CHECK(metrics::http_response(all, "").starts_with("HTTP/1.0 "));
    }
}

// What is read can be asked anything.
void check_text(std::string_view text) {
    const auto families = metrics::read_text(text);
    if (!families) {
        return;
    }
    for (const metrics::Family& family : *families) {
        FUZZ_CHECK(metrics::is_metric_name(family.name));
        const metrics::Buckets buckets = metrics::buckets_of(family);
        for (const double q : {0.0, 0.5, 0.99, 1.0}) {
            ignore(metrics::quantile(buckets, q), "any value, but no crash");
        }
    }
}

// What stands in a label or a help text reads back, whatever it is.
void check_round_trip(std::string_view text) {
    metrics::Writer writer;
    writer.family("m", metrics::Type::gauge, text);
    writer.sample({{"a", text}, {"b", "c"}}, uint64_t{1});
    const auto families = metrics::read_text(writer.take());
    FUZZ_CHECK(families && families->size() == 1 && families->front().samples.size() == 1);
    FUZZ_CHECK(families->front().help == families->front().samples[0].labels.at("a"));
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text = mosaic::fuzz::text_of(data, size);
    mosaic::check_request(text);
    mosaic::check_text(text);
    mosaic::check_round_trip(text);
    return 0;
}
