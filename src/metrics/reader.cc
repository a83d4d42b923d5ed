#include "metrics/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "metrics/writer.h"

namespace mosaic::metrics {
namespace {

constexpr std::string_view kHelp = "# HELP ";
constexpr std::string_view kType = "# TYPE ";

std::optional<double> number_from(std::string_view text) {
    if (text == "NaN") {
        return std::numeric_limits<double>::quiet_NaN();
    }
    if (text == "+Inf" || text == "-Inf") {
        const double infinity = std::numeric_limits<double>::infinity();
        return text[0] == '+' ? infinity : -infinity;
    }
    double value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    // from_chars also takes "inf" and "nan", which the format spells otherwise.
    return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Undoes the escapes; nothing for one that the format doesn't have.
std::optional<std::string> unescaped(std::string_view text, bool in_quotes) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            out += text[i];
            continue;
        }
        const char next = ++i < text.size() ? text[i] : '\0';
        if (next == 'n') {
            out += '\n';
        } else if (next == '\\' || (in_quotes && next == '"')) {
            out += next;
        } else {
            return std::nullopt;
        }
    }
    return out;
}

// Takes `name="value"` off the front of `text`; false when it doesn't stand there.
bool take_label(std::string_view& text, Sample& sample) {
    const size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) {
        return false;
    }
    const std::string name(text.substr(0, equals));
    size_t end = equals + 2;
    while (end < text.size() && text[end] != '"') {
        end += text[end] == '\\' ? 2U : 1U;
    }
    if (end >= text.size()) {
        return false;
    }
    auto value = unescaped(text.substr(equals + 2, end - equals - 2), true);
    text.remove_prefix(end + 1);
    return value && is_label_name(name) && sample.labels.emplace(name, std::move(*value)).second;
}

// "{a="b",c="d"}" off the front of `text`, or nothing there.
bool take_labels(std::string_view& text, Sample& sample) {
    if (!text.starts_with('{')) {
        return true;
    }
    do {
        text.remove_prefix(1);
        if (!take_label(text, sample)) {
            return false;
        }
    } while (text.starts_with(','));
    if (!text.starts_with('}')) {
        return false;
    }
    text.remove_prefix(1);
    return true;
}

std::optional<Sample> sample_from(std::string_view line) {
    Sample out;
    const size_t end = line.find_first_of("{ ");
    if (end == std::string_view::npos) {
        return std::nullopt;
    }
    out.name = line.substr(0, end);
    line.remove_prefix(end);
    if (!is_metric_name(out.name) || !take_labels(line, out) || !line.starts_with(' ')) {
        return std::nullopt;
    }
    line.remove_prefix(1);
    const auto value = number_from(line);
    if (!value) {
        return std::nullopt;
    }
    out.value = *value;
    return out;
}

class Reading {
  public:
    [[nodiscard]] bool take(std::string_view line) {
        if (line.starts_with(kHelp)) {
            return take_help(line.substr(kHelp.size()));
        }
        if (line.starts_with(kType)) {
            return take_type(line.substr(kType.size()));
        }
        auto sample = sample_from(line);
        if (!sample || families_.empty() || !belongs(*sample)) {
            return false;
        }
        families_.back().samples.push_back(std::move(*sample));
        return true;
    }

    [[nodiscard]] bool complete() const {
        return families_.empty() || !families_.back().type.empty();
    }

    std::vector<Family> take_families() { return std::move(families_); }

  private:
    std::vector<Family> families_;

    bool take_help(std::string_view rest) {
        const size_t space = std::min(rest.find(' '), rest.size());
        const std::string_view name = rest.substr(0, space);
        auto help = unescaped(rest.substr(std::min(space + 1, rest.size())), false);
        if (!complete() || !is_metric_name(name) || !help ||
            find_family(families_, name) != nullptr) {
            return false;
        }
        families_.push_back({std::string(name), "", std::move(*help), {}});
        return true;
    }

    bool take_type(std::string_view rest) {
        if (families_.empty() || !families_.back().type.empty()) {
            return false;
        }
        Family& family = families_.back();
        for (const Type type : {Type::counter, Type::gauge, Type::histogram}) {
            if (rest == family.name + " " + std::string(to_string(type))) {
                family.type = to_string(type);
                return true;
            }
        }
        return false;
    }

    // Of the family that was begun last, and of a series that its type has.
    [[nodiscard]] bool belongs(const Sample& sample) const {
        const Family& family = families_.back();
        const bool bound = sample.labels.contains("le");
        if (family.type != to_string(Type::histogram)) {
            return !family.type.empty() && sample.name == family.name && !bound;
        }
        if (sample.name == family.name + "_bucket") {
            return bound && number_from(sample.labels.at("le")).has_value();
        }
        return !bound &&
               (sample.name == family.name + "_sum" || sample.name == family.name + "_count");
    }
};

}  // namespace

Result<std::vector<Family>> read_text(std::string_view text) {
    Reading reading;
    size_t number = 0;
    while (!text.empty()) {
        ++number;
        const size_t end = text.find('\n');
        if (end == std::string_view::npos || !reading.take(text.substr(0, end))) {
            return fail(Code::invalid, "line " + std::to_string(number) + ": no line of metrics");
        }
        text.remove_prefix(end + 1);
    }
    if (!reading.complete()) {
        return fail(Code::invalid, "line " + std::to_string(number) + ": a family without a type");
    }
    return reading.take_families();
}

const Family* find_family(const std::vector<Family>& families, std::string_view name) {
    const auto found = std::find_if(
        families.begin(), families.end(), [&](const Family& f) { return f.name == name; });
    return found != families.end() ? &*found : nullptr;
}

std::optional<double> value_of(const std::vector<Family>& families,
                               std::string_view name,
                               const std::map<std::string, std::string>& labels) {
    const Family* family = find_family(families, name);
    if (family == nullptr) {
        return std::nullopt;
    }
    for (const Sample& sample : family->samples) {
        const bool has_them = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
            const auto found = sample.labels.find(label.first);
            return found != sample.labels.end() && found->second == label.second;
        });
        if (has_them) {
            return sample.value;
        }
    }
    return std::nullopt;
}

Buckets buckets_of(const Family& family) {
    Buckets out;
    for (const Sample& sample : family.samples) {
        const auto bound = sample.labels.find("le");
        const auto number =
            bound != sample.labels.end() ? number_from(bound->second) : std::nullopt;
        if (number && !std::isnan(*number)) {
            out[*number] += sample.value;
        }
    }
    return out;
}

std::optional<double> quantile(const Buckets& buckets, double q) {
    const double all = buckets.empty() ? 0 : buckets.rbegin()->second;
    if (!(all > 0)) {
        return std::nullopt;
    }
    const double rank = q * all;
    double bound_before = 0;
    double count_before = 0;
    for (const auto& [bound, count] : buckets) {
        if (count >= rank && count > count_before) {
            if (std::isinf(bound)) {
                return bound_before;
            }
            const double part = (rank - count_before) / (count - count_before);
            return bound_before + (bound - bound_before) * part;
        }
        bound_before = std::isinf(bound) ? bound_before : bound;
        count_before = count;
    }
    return bound_before;
}

}  // namespace mosaic::metrics
