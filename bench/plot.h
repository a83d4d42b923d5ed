#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Curves over two linear axes as the text of an SVG file. Pure.

namespace mosaic::bench {

struct Curve {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x, y; finite and at least 0; x ascending
};

struct Plot {
    std::string title;
    std::string note;  // below the title; may be empty
    std::string x_label;
    std::string y_label;
    double x_max = 0;  // the axes go from 0 to at least these; what lies beyond is cut off
    double y_max = 0;
    bool dots = false;  // a dot at each point
    std::vector<Curve> curves;
};

// How much of `us` (microseconds) lies at or below each time: milliseconds over 0..1, in steps.
[[nodiscard]] Curve distribution(std::string name, std::vector<int64_t> us);

// Text for the inside of an element or an attribute: markup is escaped, what XML can't hold
// (control characters, bytes that aren't UTF-8) becomes U+FFFD.
[[nodiscard]] std::string xml_text(const std::string& text);

// A whole SVG document. Any number of curves, of any number of points.
[[nodiscard]] std::string svg(const Plot& plot);

}  // namespace mosaic::bench
