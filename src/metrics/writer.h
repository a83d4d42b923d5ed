#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/histogram.h"

// The Prometheus text exposition format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
// Names and conventions: https://prometheus.io/docs/concepts/data_model/ and
// https://prometheus.io/docs/practices/naming/

namespace mosaic::metrics {

// The Content-Type of such a text.
constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

enum class Type {
    counter,
    gauge,
    histogram,
};

[[nodiscard]] std::string_view to_string(Type type);

using Label = std::pair<std::string_view, std::string_view>;
using Labels = std::vector<Label>;

// [a-zA-Z_:][a-zA-Z0-9_:]* ; a label's name has no colon and doesn't begin with "__".
[[nodiscard]] bool is_metric_name(std::string_view text);
[[nodiscard]] bool is_label_name(std::string_view text);

// A number as the format has it: the shortest text that reads back as the same value; NaN, +Inf,
// -Inf.
[[nodiscard]] std::string number_text(double value);

// Writes families one after the other, each whole. Names are ours: a bad one asserts. Label values
// and help texts may hold anything; bytes that aren't UTF-8 become U+FFFD.
class Writer {
  public:
    // Begins the next family. A counter's name ends in _total and no other's does; a time's ends in
    // _seconds (before that). A name stands once in a text.
    void family(std::string_view name, Type type, std::string_view help);

    // A sample of the family, which isn't a histogram.
    void sample(const Labels& labels, double value);
    void sample(const Labels& labels, uint64_t value);

    void sample(double value) { sample({}, value); }

    void sample(uint64_t value) { sample({}, value); }

    void sample(const Counter& counter) { sample({}, counter.value); }

    void sample(const Labels& labels, const Counter& counter) { sample(labels, counter.value); }

    // All series of a histogram: its buckets, which are cumulative here, its sum and its count.
    void histogram(const Labels& labels, const Histogram& histogram);

    void histogram(const Histogram& one) { histogram({}, one); }

    // What was written. Ends the writer's use.
    [[nodiscard]] std::string take() { return std::move(out_); }

  private:
    void line(std::string_view suffix,
              const Labels& labels,
              std::string_view bound,
              std::string_view value);
    void add_label(std::string_view name, std::string_view value, bool first);

    std::string out_;
    std::string name_;
    Type type_ = Type::gauge;
    std::set<std::string, std::less<>> names_;
};

}  // namespace mosaic::metrics
