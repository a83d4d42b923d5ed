// Goal: a plot is well-formed XML whose numbers are numbers, whatever was measured. Method: a
// checker of the part of XML that a plot uses, which must find broken documents broken.

#include "bench/plot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mosaic::bench {
namespace {

bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == ':';
}

// Reads elements, attributes in double quotes, text and the five entities.
class Reader {
  public:
    explicit Reader(const std::string& text) : text_(text) {}

    // What is wrong; empty: nothing.
    std::string problem() {
        while (problem_.empty() && at_ < text_.size()) {
            if (text_[at_] == '<') {
                tag();
            } else {
                character('<');
            }
        }
        if (problem_.empty() && (!open_.empty() || roots_ != 1)) {
            problem_ = "not one closed root";
        }
        return problem_;
    }

  private:
    [[nodiscard]] char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    std::string name() {
        std::string out;
        while (is_name(here())) {
            out += text_[at_++];
        }
        if (out.empty()) {
            problem_ = "no name";
        }
        return out;
    }

    void character(char end) {
        const char c = here();
        if (c == '&') {
            const size_t semicolon = text_.find(';', at_);
            const std::string entity = text_.substr(at_, semicolon - at_ + 1);
            const std::vector<std::string> known = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
            if (std::find(known.begin(), known.end(), entity) == known.end()) {
                problem_ = "no entity: " + entity.substr(0, 10);
            }
            at_ += entity.size();
            return;
        }
        const bool white = c == '\n';
        if ((static_cast<unsigned char>(c) < 0x20 && !white) || (c == '<' && end != '<') ||
            (open_.empty() && !white)) {
            problem_ = "a character where none may be";
        }
        ++at_;
    }

    void tag() {
        ++at_;
        if (here() == '/') {
            ++at_;
            const std::string closed = name();
            if (open_.empty() || open_.back() != closed || here() != '>') {
                problem_ = "closed what isn't open: " + closed;
                return;
            }
            ++at_;
            open_.pop_back();
            return;
        }
        roots_ += open_.empty() ? 1 : 0;
        open_.push_back(name());
        while (problem_.empty() && here() == ' ') {
            ++at_;
            attribute();
        }
        if (here() == '/') {
            ++at_;
            open_.pop_back();
        }
        if (here() != '>') {
            problem_ = problem_.empty() ? "an open tag" : problem_;
        }
        ++at_;
    }

    void attribute() {
        name();
        if (text_.compare(at_, 2, "=\"") != 0) {
            problem_ = "an attribute without a value";
            return;
        }
        at_ += 2;
        while (problem_.empty() && here() != '"') {
            if (at_ >= text_.size()) {
                problem_ = "an open value";
                return;
            }
            character('"');
        }
        ++at_;
    }

    const std::string& text_;
    size_t at_ = 0;
    int roots_ = 0;
    std::vector<std::string> open_;
    std::string problem_;
};

std::string problem_of(const std::string& text) {
    return Reader(text).problem();
}

size_t count_of(const std::string& text, const std::string& part) {
    size_t out = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++out;
    }
    return out;
}

void check_whole(const Plot& plot) {
    const std::string text = svg(plot);
    CAPTURE(text);
    CHECK(problem_of(text) == "");
    for (const char* no_number : {"nan", "inf", "e+", "--"}) {
        CHECK(text.find(no_number) == std::string::npos);
    }
}

Plot plot_of(std::vector<int64_t> us, double x_max) {
    Plot out;
    out.title = "launch to claim";
    out.x_label = "ms";
    out.y_label = "part of the launches";
    out.x_max = x_max;
    out.y_max = 1;
    out.curves = {distribution("product", std::move(us))};
    return out;
}

}  // namespace

TEST_CASE("the checker finds broken documents") {
    CHECK(problem_of("<a b=\"c\"><d/>x &amp; y</a>\n") == "");
    for (const char* broken : {"",
                               "x",
                               "<a>",
                               "<a></b>",
                               "<a/><b/>",
                               "<a>&</a>",
                               "<a>&nbsp;</a>",
                               "<a b></a>",
                               "<a b=\"<\"></a>",
                               "<a b=\"c></a>",
                               "<a>\x01</a>",
                               "<a",
                               "</a>"}) {
        CAPTURE(broken);
        CHECK(problem_of(broken) != "");
    }
}

TEST_CASE("a plot is well-formed whatever was measured") {
    check_whole(Plot{});
    check_whole(plot_of({}, 0));
    check_whole(plot_of({5'000}, 5));
    check_whole(plot_of({5'000, 5'000, 5'000}, 5));
    check_whole(plot_of({0, 0}, 0));
    check_whole(plot_of({1}, 0.001));
    check_whole(plot_of({1, 60'000'000}, 60'000));
    check_whole(plot_of({1, 60'000'000}, 10));
    Plot many = plot_of({4'000, 6'000}, 6);
    for (int i = 0; i < 20; ++i) {
        many.curves.push_back(distribution("another", {i * 100}));
    }
    check_whole(many);
    Plot live;
    live.x_max = 1000;
    live.y_max = 12.3;
    live.dots = true;
    live.curves = {{"B", {{0, 5}, {1000, 12.3}}}, {"one point", {{0, 1}}}, {"none", {}}};
    check_whole(live);
    CHECK(count_of(svg(live), "<circle ") == 3);
}

TEST_CASE("names are text, not markup") {
    Plot plot = plot_of({1'000, 2'000}, 2);
    plot.title = "a < b & \"c\" > 'd'";
    plot.note = std::string("\x01\xff</svg>", 8);
    plot.curves[0].name = "<script>alert(1)</script>";
    check_whole(plot);
    const std::string text = svg(plot);
    CHECK(text.find("a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;") != std::string::npos);
    CHECK(text.find("<script>") == std::string::npos);
    CHECK(xml_text("\xc3\xa4\n") == "\xc3\xa4\xEF\xBF\xBD");
}

TEST_CASE("a distribution climbs to one in as many steps as there are values") {
    const Curve curve = distribution("x", {3'000, 1'000});
    const std::vector<std::pair<double, double>> steps = {{1, 0}, {1, 0.5}, {3, 0.5}, {3, 1}};
    CHECK(curve.points == steps);
    CHECK(distribution("x", {}).points.empty());
}

TEST_CASE("the axes end at a whole tick that covers what they must") {
    Plot plot;
    plot.x_max = 47;
    plot.y_max = 1;
    const std::string text = svg(plot);
    CHECK(text.find(">50</text>") != std::string::npos);
    CHECK(text.find(">40</text>") != std::string::npos);
    CHECK(text.find(">60</text>") == std::string::npos);
    CHECK(text.find(">0.8</text>") != std::string::npos);
    CHECK(text.find(">1.2</text>") == std::string::npos);
}

}  // namespace mosaic::bench
