#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

// The text format of writer.h, read back. Stricter than the format asks of a reader: each family
// has its HELP and TYPE lines, in this order and before its samples, and its samples stand
// together; no timestamps, no other comments, no empty lines.

namespace mosaic::metrics {

struct Sample {
    std::string name;  // the family's; of a histogram's series with _bucket, _sum or _count behind
    std::map<std::string, std::string> labels;
    double value = 0;

    bool operator==(const Sample&) const = default;
};

struct Family {
    std::string name;
    std::string type;  // "counter", "gauge" or "histogram"
    std::string help;
    std::vector<Sample> samples;

    bool operator==(const Family&) const = default;
};

// The error names the line.
[[nodiscard]] Result<std::vector<Family>> read_text(std::string_view text);

[[nodiscard]] const Family* find_family(const std::vector<Family>& families, std::string_view name);

// The one sample that has these labels (and maybe more); nothing when none has.
[[nodiscard]] std::optional<double> value_of(const std::vector<Family>& families,
                                             std::string_view name,
                                             const std::map<std::string, std::string>& labels = {});

// A histogram family's buckets, added up over its other labels: upper bound (the last is infinite)
// and how many are at or below it.
using Buckets = std::map<double, double>;
[[nodiscard]] Buckets buckets_of(const Family& family);

// The value below which the part `q` of all lies (0.5: half), by linear interpolation within its
// bucket, as Prometheus's histogram_quantile does it: past the last bound it is that bound. Nothing
// when nothing was observed.
[[nodiscard]] std::optional<double> quantile(const Buckets& buckets, double q);

}  // namespace mosaic::metrics
