#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/instant.h"
#include "metrics/reader.h"
#include "wire/json.h"

// What `mosaic top` shows, made of the broker's and the host's answers. Pure: it knows no terminal,
// no socket and no clock.

namespace mosaic::cli {

// Events that are kept; more than any terminal shows.
constexpr size_t kTopEventsMax = 200;

// "2026-01-31T12:34:56.789Z" as milliseconds since the epoch; nothing for anything else.
[[nodiscard]] std::optional<int64_t> wall_ms_from(const std::string& iso8601);

// The first code points of a text, as many as there are columns, in one line and escaped: nothing
// that a terminal obeys.
[[nodiscard]] std::string fit(const std::string& text, size_t columns);

class TopView {
  public:
    // How large the picture may be. A line is cut at its columns, counted in code points.
    struct Size {
        size_t rows = 24;
        size_t columns = 80;
    };

    explicit TopView(std::string title) : title_(std::move(title)) {}

    // The result of each verb. An Error for one of another shape; the view is as before then.
    [[nodiscard]] Result<void> take_sessions(const json::Value& result);
    [[nodiscard]] Result<void> take_metrics(const json::Value& result, Instant at);
    // The number to go on from.
    [[nodiscard]] Result<int64_t> take_events(const json::Value& result);

    // Stands in place of the head's first line's end: that nobody answers, say. Empty: nothing.
    void set_note(std::string note) { note_ = std::move(note); }

    // The lines of the picture, at most size.rows, escaped. `now_ms` is since the epoch.
    [[nodiscard]] std::vector<std::string> draw(Size size, int64_t now_ms) const;
    // All of it, for a paper that is as large as it needs.
    [[nodiscard]] std::string text(int64_t now_ms) const;
    // The same as data.
    [[nodiscard]] json::Value to_value(int64_t now_ms) const;

  private:
    struct Session {
        std::string seat;
        std::string run;
        std::string model;
        std::string harness;
        bool claimed = false;
        std::optional<int64_t> bound_ms;
    };

    struct Seen {
        std::string type;
        std::optional<int64_t> at_ms;
    };

    // Of a moment; two of them give a rate.
    struct Point {
        Instant at;
        double launched = 0;
        double busy = 0;  // seconds
    };

    struct Rates {
        std::optional<double> launches;  // a second
        std::optional<double> busy;      // of one
    };

    void note_event(const json::Value& event);
    void forget_seats();
    [[nodiscard]] double metric(std::string_view name,
                                const std::map<std::string, std::string>& labels = {}) const;
    [[nodiscard]] double refused() const;
    [[nodiscard]] std::optional<double> launch_quantile(double q) const;
    [[nodiscard]] Rates rates(int64_t now_ms) const;
    [[nodiscard]] std::string state_of(const Session& session) const;
    [[nodiscard]] std::vector<std::string> head(int64_t now_ms) const;
    [[nodiscard]] std::vector<std::string> table(int64_t now_ms) const;

    std::string title_;
    std::string note_;
    std::vector<Session> sessions_;
    std::map<std::string, Seen> last_of_;  // by seat
    std::deque<json::Value> events_;
    std::vector<metrics::Family> metrics_;
    std::optional<Point> before_;
    std::optional<Point> now_;
};

}  // namespace mosaic::cli
