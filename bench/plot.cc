#include "bench/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"

namespace mosaic::bench {
namespace {

constexpr double kWidth = 820;
constexpr double kHeight = 440;
constexpr double kLeft = 70;
constexpr double kRight = 290;  // the names of the curves stand there
constexpr double kTop = 60;
constexpr double kBottom = 55;
constexpr int kTicks = 5;
constexpr double kLegendStep = 20;
constexpr double kMargin = 3;  // half a dot
constexpr const char* kInk = "#000000";
constexpr const char* kFaint = "#dddddd";
constexpr const char* kCentred = " text-anchor=\"middle\"";
// Told apart in print and by the colour-blind (Okabe and Ito).
constexpr std::array<const char*, 7> kColours = {
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"};

// The least of 1, 2, 2.5, 5 times a power of ten that isn't below `value`.
double round_up(double value) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
        if (factor * power >= value) {
            return factor * power;
        }
    }
    return 10 * power;
}

// An axis from 0 to a whole number of ticks.
struct Axis {
    explicit Axis(double most) : step(round_up(std::max(most, 1e-6) / kTicks)) {
        // Not one tick more because of a last digit.
        ticks = static_cast<int>(std::ceil(most / step - 1e-9));
        ticks = std::max(ticks, 1);
    }

    [[nodiscard]] double end() const { return step * ticks; }

    double step;
    int ticks;
};

struct Frame {
    Axis x;
    Axis y;

    [[nodiscard]] double left(double value) const {
        return kLeft + value / x.end() * (kWidth - kLeft - kRight);
    }

    [[nodiscard]] double top(double value) const {
        return kHeight - kBottom - value / y.end() * (kHeight - kTop - kBottom);
    }
};

// One decimal: a tenth of a pixel.
std::string pixels(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", value);
    return text.data();
}

// For the axes: 0.25, 5, 1000.
std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
}

std::string text_at(double x,
                    double y,
                    const std::string& text,
                    const std::string& attributes = "") {
    return "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\"" + attributes + ">" +
           xml_text(text) + "</text>\n";
}

std::string line_from(double x1, double y1, double x2, double y2, const std::string& stroke) {
    return "<path d=\"M" + pixels(x1) + " " + pixels(y1) + "L" + pixels(x2) + " " + pixels(y2) +
           "\" stroke=\"" + stroke + "\"/>\n";
}

std::string rectangle(double x, double y, double width, double height) {
    return "<rect x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" width=\"" + pixels(width) +
           "\" height=\"" + pixels(height) + "\"/>";
}

std::string grid(const Frame& frame) {
    std::string out;
    const double bottom = frame.top(0);
    const double right = frame.left(frame.x.end());
    for (int i = 0; i <= frame.x.ticks; ++i) {
        const double at = frame.left(frame.x.step * i);
        out += line_from(at, bottom, at, kTop, i == 0 ? kInk : kFaint);
        out += text_at(at, bottom + 18, number(frame.x.step * i), kCentred);
    }
    for (int i = 0; i <= frame.y.ticks; ++i) {
        const double at = frame.top(frame.y.step * i);
        out += line_from(kLeft, at, right, at, i == 0 ? kInk : kFaint);
        out += text_at(kLeft - 8, at + 4, number(frame.y.step * i), " text-anchor=\"end\"");
    }
    return out;
}

std::string curve_of(const Frame& frame, const Curve& curve, const std::string& colour, bool dots) {
    std::string path;
    std::string marks;
    for (const auto& [x, y] : curve.points) {
        const std::string left = pixels(frame.left(x));
        const std::string top = pixels(frame.top(y));
        path += (path.empty() ? "M" : "L") + left + " " + top;
        if (dots) {
            marks += "<circle cx=\"" + left + "\" cy=\"" + top + "\" r=\"3\" fill=\"" + colour +
                     "\"/>\n";
        }
    }
    if (path.empty()) {
        return "";
    }
    return "<path d=\"" + path + "\" fill=\"none\" stroke=\"" + colour +
           "\" stroke-width=\"2\"/>\n" + marks;
}

}  // namespace

Curve distribution(std::string name, std::vector<int64_t> us) {
    std::sort(us.begin(), us.end());
    Curve out{std::move(name), {}};
    double below = 0;
    for (size_t i = 0; i < us.size(); ++i) {
        const double x = static_cast<double>(us[i]) / 1000;
        out.points.emplace_back(x, below);
        below = static_cast<double>(i + 1) / static_cast<double>(us.size());
        out.points.emplace_back(x, below);
    }
    return out;
}

std::string xml_text(const std::string& text) {
    std::string out;
    for (const char c : to_valid_utf8(text)) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    out += "\xEF\xBF\xBD";
                } else {
                    out += c;
                }
        }
    }
    return out;
}

std::string svg(const Plot& plot) {
    const Frame frame{Axis(plot.x_max), Axis(plot.y_max)};
    const double right = frame.left(frame.x.end());
    const double bottom = frame.top(0);
    const std::string size = "width=\"" + number(kWidth) + "\" height=\"" + number(kHeight) + "\"";
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " +
                      number(kWidth) + " " + number(kHeight) +
                      "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect " + size +
                      " fill=\"#ffffff\"/>\n<clipPath id=\"inside\">" +
                      rectangle(kLeft - kMargin,
                                kTop - kMargin,
                                right - kLeft + 2 * kMargin,
                                bottom - kTop + 2 * kMargin) +
                      "</clipPath>\n";
    out += text_at(kLeft, 24, plot.title, " font-size=\"16\"");
    out += text_at(kLeft, 43, plot.note, " fill=\"#555555\"");
    out += grid(frame);
    out += text_at((kLeft + right) / 2, kHeight - 14, plot.x_label, kCentred);
    out += "<g transform=\"translate(18 " + pixels((kTop + bottom) / 2) + ") rotate(-90)\">" +
           text_at(0, 0, plot.y_label, kCentred) + "</g>\n";
    std::string names;
    out += "<g clip-path=\"url(#inside)\">\n";
    for (size_t i = 0; i < plot.curves.size(); ++i) {
        const std::string colour = kColours[i % kColours.size()];
        const double y = kTop + 10 + kLegendStep * static_cast<double>(i);
        out += curve_of(frame, plot.curves[i], colour, plot.dots);
        names += line_from(right + 12, y, right + 30, y, colour);
        names += text_at(right + 36, y + 4, plot.curves[i].name);
    }
    return out + "</g>\n" + names + "</svg>\n";
}

}  // namespace mosaic::bench
