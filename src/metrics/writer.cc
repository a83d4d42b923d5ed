#include "metrics/writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/assert.h"
#include "base/utf8.h"

namespace mosaic::metrics {
namespace {

constexpr double kUsPerSecond = 1e6;
constexpr double kNsPerSecond = 1e9;
// The label that only a histogram's buckets have.
constexpr std::string_view kBound = "le";

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// A backslash and a newline are escaped everywhere, a quote in label values only.
std::string escaped(std::string_view text, bool in_quotes) {
    std::string out;
    for (const char c : to_valid_utf8(text)) {
        if (c == '\n') {
            out += "\\n";
        } else if (c == '\\' || (in_quotes && c == '"')) {
            out += '\\';
            out += c;
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace

std::string_view to_string(Type type) {
    switch (type) {
        case Type::counter:
            return "counter";
        case Type::gauge:
            return "gauge";
        case Type::histogram:
            return "histogram";
    }
    MOSAIC_ASSERT(false);
}

bool is_metric_name(std::string_view text) {
    return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
        return is_letter(c) || is_digit(c) || c == ':';
    });
}

bool is_label_name(std::string_view text) {
    return is_metric_name(text) && text.find(':') == std::string_view::npos &&
           !text.starts_with("__");
}

std::string number_text(double value) {
    if (std::isnan(value)) {
        return "NaN";
    }
    if (std::isinf(value)) {
        return value > 0 ? "+Inf" : "-Inf";
    }
    // Plain digits where these are short: the bounds of histograms are for people, too.
    const double size = std::abs(value);
    const bool plain = size == 0 || (size >= 1e-6 && size < 1e15);
    std::array<char, 48> buffer{};
    const auto end =
        std::to_chars(buffer.data(),
                      buffer.data() + buffer.size(),
                      value,
                      plain ? std::chars_format::fixed : std::chars_format::scientific);
    MOSAIC_ASSERT(end.ec == std::errc());
    return {buffer.data(), end.ptr};
}

void Writer::family(std::string_view name, Type type, std::string_view help) {
    MOSAIC_ASSERT(is_metric_name(name));
    MOSAIC_ASSERT(name.ends_with("_total") == (type == Type::counter));
    MOSAIC_ASSERT(names_.emplace(name).second);
    name_ = name;
    type_ = type;
    out_ += "# HELP " + name_ + " " + escaped(help, false) + "\n";
    out_ += "# TYPE " + name_ + " " + std::string(to_string(type)) + "\n";
}

void Writer::sample(const Labels& labels, double value) {
    MOSAIC_ASSERT(!name_.empty() && type_ != Type::histogram);
    line("", labels, "", number_text(value));
}

void Writer::sample(const Labels& labels, uint64_t value) {
    MOSAIC_ASSERT(!name_.empty() && type_ != Type::histogram);
    line("", labels, "", std::to_string(value));
}

void Writer::histogram(const Labels& labels, const Histogram& histogram) {
    MOSAIC_ASSERT(type_ == Type::histogram);
    uint64_t up_to_here = 0;
    for (size_t i = 0; i < Histogram::kBuckets; ++i) {
        up_to_here += histogram.buckets()[i];
        const bool bounded = i < Histogram::kBoundsUs.size();
        const std::string bound =
            bounded ? number_text(static_cast<double>(Histogram::kBoundsUs[i]) / kUsPerSecond)
                    : "+Inf";
        line("_bucket", labels, bound, std::to_string(up_to_here));
    }
    line("_sum", labels, "", number_text(static_cast<double>(histogram.sum().ns) / kNsPerSecond));
    line("_count", labels, "", std::to_string(histogram.count()));
}

void Writer::line(std::string_view suffix,
                  const Labels& labels,
                  std::string_view bound,
                  std::string_view value) {
    out_ += name_;
    out_ += suffix;
    if (!labels.empty() || !bound.empty()) {
        out_ += '{';
        bool first = true;
        for (const auto& [name, text] : labels) {
            MOSAIC_ASSERT(is_label_name(name) && name != kBound);
            add_label(name, text, first);
            first = false;
        }
        if (!bound.empty()) {
            add_label(kBound, bound, first);
        }
        out_ += '}';
    }
    out_ += ' ';
    out_ += value;
    out_ += '\n';
}

void Writer::add_label(std::string_view name, std::string_view value, bool first) {
    if (!first) {
        out_ += ',';
    }
    out_ += name;
    out_ += "=\"";
    out_ += escaped(value, true);
    out_ += '"';
}

}  // namespace mosaic::metrics
