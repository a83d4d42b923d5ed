#include "cli/metrics_view.h"

#include <cmath>
#include <utility>

#include "metrics/writer.h"

namespace mosaic::cli {
namespace {

using metrics::Family;
using metrics::Sample;
using Labels = std::map<std::string, std::string>;

// Counts stay counts: a whole number is written as one.
json::Value number_value(double value) {
    constexpr double kExactMax = 9007199254740992.0;  // 2^53
    if (!std::isfinite(value)) {
        return metrics::number_text(value);
    }
    if (std::abs(value) <= kExactMax && value == std::floor(value)) {
        return static_cast<int64_t>(value);
    }
    return value;
}

json::Value labels_value(const Labels& labels) {
    json::Object out;
    for (const auto& [name, value] : labels) {
        out.emplace_back(name, value);
    }
    return out;
}

// The series that differ only in their bound, their sum and their count are one histogram.
json::Array histograms(const Family& family) {
    std::vector<std::pair<Labels, json::Value>> found;
    for (const Sample& sample : family.samples) {
        Labels labels = sample.labels;
        labels.erase("le");
        if (found.empty() || found.back().first != labels) {
            json::Value one(json::Object{{"labels", labels_value(labels)}});
            one.set("buckets", json::Object{});
            found.emplace_back(std::move(labels), std::move(one));
        }
        json::Value& histogram = found.back().second;
        const json::Value number = number_value(sample.value);
        if (sample.name.ends_with("_bucket")) {
            histogram.find("buckets")->set(sample.labels.at("le"), number);
        } else {
            histogram.set(sample.name.substr(family.name.size() + 1), number);
        }
    }
    json::Array out;
    for (auto& [labels, value] : found) {
        out.push_back(std::move(value));
    }
    return out;
}

json::Array plain(const Family& family) {
    json::Array out;
    for (const Sample& sample : family.samples) {
        out.push_back(json::Object{{"labels", labels_value(sample.labels)},
                                   {"value", number_value(sample.value)}});
    }
    return out;
}

}  // namespace

json::Value metrics_value(const std::vector<Family>& families) {
    json::Array out;
    for (const Family& family : families) {
        json::Value one(
            json::Object{{"name", family.name}, {"type", family.type}, {"help", family.help}});
        one.set("metrics", family.type == "histogram" ? histograms(family) : plain(family));
        out.push_back(std::move(one));
    }
    return out;
}

}  // namespace mosaic::cli
