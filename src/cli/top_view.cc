#include "cli/top_view.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/ids.h"
#include "base/utf8.h"
#include "cli/event_text.h"
#include "cli/output.h"

namespace mosaic::cli {
namespace {

constexpr const char* kLaunches = "mosaic_launches_total";
constexpr const char* kBusy = "mosaic_host_loop_busy_seconds_total";

std::string text_in(const json::Value& object, std::string_view key) {
    const json::Value* value = object.find(key);
    return value != nullptr && value->string() != nullptr ? *value->string() : std::string();
}

tl::unexpected<Error> another_shape(const char* verb) {
    return fail(Code::invalid, std::string(verb) + ": the reply has another shape");
}

// With so many digits behind the point.
std::string decimal(double number, int digits) {
    std::array<char, 64> out{};
    const auto end = std::to_chars(
        out.data(), out.data() + out.size(), number, std::chars_format::fixed, digits);
    return end.ec == std::errc() ? std::string(out.data(), end.ptr) : "-";
}

std::string count_text(double count) {
    return decimal(count, 0);
}

// "9.8 ms", "1.50 s"
std::string time_text(std::optional<double> seconds) {
    if (!seconds) {
        return "-";
    }
    return *seconds < 1 ? decimal(*seconds * 1e3, 1) + " ms" : decimal(*seconds, 2) + " s";
}

std::string bytes_text(double bytes) {
    constexpr double kMebibyte = 1024.0 * 1024.0;
    return decimal(bytes / kMebibyte, 0) + " MiB";
}

std::string two_digits(int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

// "12s", "3m04s", "5h12m", "2d03h"
std::string age_text(int64_t ms) {
    constexpr int64_t kDayS = int64_t{24} * 3600;
    const int64_t s = std::max<int64_t>(ms, 0) / 1000;
    if (s < 60) {
        return std::to_string(s) + "s";
    }
    if (s < 3600) {
        return std::to_string(s / 60) + "m" + two_digits(s % 60) + "s";
    }
    if (s < kDayS) {
        return std::to_string(s / 3600) + "h" + two_digits(s / 60 % 60) + "m";
    }
    return std::to_string(s / kDayS) + "d" + two_digits(s / 3600 % 24) + "h";
}

std::string age_since(std::optional<int64_t> then_ms, int64_t now_ms) {
    return then_ms ? age_text(now_ms - *then_ms) : "-";
}

json::Value or_null(std::optional<double> number) {
    return number ? json::Value(*number) : json::Value();
}

json::Value whole(double number) {
    return static_cast<int64_t>(number);
}

// Digits alone, at this place.
std::optional<int> digits(const std::string& text, size_t at, size_t size) {
    int out = 0;
    const char* begin = text.data() + at;
    const auto parsed = std::from_chars(begin, begin + size, out);
    const bool good = parsed.ec == std::errc() && parsed.ptr == begin + size && *begin != '-';
    return good ? std::optional(out) : std::nullopt;
}

}  // namespace

std::optional<int64_t> wall_ms_from(const std::string& iso8601) {
    constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
    if (iso8601.size() != kForm.size()) {
        return std::nullopt;
    }
    for (size_t i = 0; i < kForm.size(); ++i) {
        if (kForm[i] != '0' && iso8601[i] != kForm[i]) {
            return std::nullopt;
        }
    }
    constexpr std::array<std::pair<size_t, size_t>, 7> kParts = {
        {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}, {20, 3}}};
    std::array<int, 7> parts{};
    for (size_t i = 0; i < kParts.size(); ++i) {
        const auto part = digits(iso8601, kParts[i].first, kParts[i].second);
        if (!part) {
            return std::nullopt;
        }
        parts[i] = *part;
    }
    const std::chrono::year_month_day day{std::chrono::year{parts[0]},
                                          std::chrono::month{static_cast<unsigned>(parts[1])},
                                          std::chrono::day{static_cast<unsigned>(parts[2])}};
    if (!day.ok()) {
        return std::nullopt;
    }
    const int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
    const int64_t seconds = ((days * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5];
    return seconds * 1000 + parts[6];
}

std::string fit(const std::string& text, size_t columns) {
    const std::string clean = one_line(text);
    size_t at = 0;
    size_t points = 0;
    while (at < clean.size()) {
        const bool begins = (static_cast<unsigned char>(clean[at]) & 0xC0U) != 0x80U;
        if (begins && points++ == columns) {
            break;
        }
        ++at;
    }
    return clean.substr(0, at);
}

Result<void> TopView::take_sessions(const json::Value& result) {
    const json::Value* list = result.find("sessions");
    if (list == nullptr || list->array() == nullptr) {
        return another_shape("sessions");
    }
    std::vector<Session> sessions;
    for (const json::Value& entry : *list->array()) {
        Session session;
        session.seat = describe({text_in(entry, "instance"), text_in(entry, "thread")});
        session.run = text_in(entry, "run");
        session.model = text_in(entry, "model");
        session.harness = text_in(entry, "harness");
        const json::Value* claimed = entry.find("claimed");
        session.claimed =
            claimed != nullptr && claimed->boolean() != nullptr && *claimed->boolean();
        session.bound_ms = wall_ms_from(text_in(entry, "boundAt"));
        sessions.push_back(std::move(session));
    }
    std::sort(sessions.begin(), sessions.end(), [](const Session& a, const Session& b) {
        return a.seat < b.seat;
    });
    sessions_ = std::move(sessions);
    forget_seats();
    return {};
}

// Threads have names without end; what is known of those that don't run is dropped some day.
void TopView::forget_seats() {
    constexpr size_t kSeatsMax = 4096;
    if (last_of_.size() <= kSeatsMax) {
        return;
    }
    std::erase_if(last_of_, [&](const auto& known) {
        return std::none_of(sessions_.begin(), sessions_.end(), [&](const Session& session) {
            return session.seat == known.first;
        });
    });
}

Result<void> TopView::take_metrics(const json::Value& result, Instant at) {
    const json::Value* text = result.find("text");
    if (text == nullptr || text->string() == nullptr) {
        return another_shape("metrics");
    }
    MOSAIC_TRY_ASSIGN(metrics_, metrics::read_text(*text->string()));
    before_ = now_;
    now_ = Point{at, metric(kLaunches, {{"result", "launched"}}), metric(kBusy)};
    // A host that was started since counts from 0 again.
    if (before_ && (before_->launched > now_->launched || before_->busy > now_->busy)) {
        before_.reset();
    }
    return {};
}

void TopView::note_event(const json::Value& event) {
    const Seen seen{text_in(event, "type"), wall_ms_from(text_in(event, "at"))};
    if (event.find("instance") != nullptr) {
        last_of_[describe({text_in(event, "instance"), text_in(event, "thread")})] = seen;
    } else if (seen.type == "message.sent") {
        last_of_[text_in(event, "from")] = seen;
        last_of_[describe({text_in(event, "to"), text_in(event, "thread")})] = {"message.received",
                                                                                seen.at_ms};
    } else if (const std::string by = text_in(event, "by"); !by.empty()) {
        last_of_[by] = seen;
    }
}

Result<int64_t> TopView::take_events(const json::Value& result) {
    const json::Value* events = result.find("events");
    const json::Value* next = result.find("next");
    if (events == nullptr || events->array() == nullptr || next == nullptr ||
        next->integer() == nullptr) {
        return another_shape("events");
    }
    for (const json::Value& event : *events->array()) {
        if (event.object() == nullptr) {
            continue;
        }
        note_event(event);
        events_.push_back(event);
    }
    while (events_.size() > kTopEventsMax) {
        events_.pop_front();
    }
    return *next->integer();
}

double TopView::metric(std::string_view name,
                       const std::map<std::string, std::string>& labels) const {
    return metrics::value_of(metrics_, name, labels).value_or(0);
}

double TopView::refused() const {
    const metrics::Family* family = metrics::find_family(metrics_, kLaunches);
    double out = 0;
    if (family != nullptr) {
        for (const metrics::Sample& sample : family->samples) {
            const auto result = sample.labels.find("result");
            const bool launched = result != sample.labels.end() && result->second == "launched";
            out += launched ? 0 : sample.value;
        }
    }
    return out;
}

std::optional<double> TopView::launch_quantile(double q) const {
    const metrics::Family* family = metrics::find_family(metrics_, "mosaic_launch_seconds");
    return family != nullptr ? metrics::quantile(metrics::buckets_of(*family), q) : std::nullopt;
}

// Between the last two looks; where there was one alone, since the host's start.
TopView::Rates TopView::rates(int64_t now_ms) const {
    Rates out;
    double passed = 0;
    Point from;
    if (before_ && now_) {
        passed = static_cast<double>((now_->at - before_->at).ns) / 1e9;
        from = *before_;
    } else if (now_) {
        const double started = metric("mosaic_host_start_time_seconds");
        passed = static_cast<double>(now_ms) / 1e3 - started;
    }
    if (passed > 0) {
        out.launches = (now_->launched - from.launched) / passed;
        out.busy = std::min((now_->busy - from.busy) / passed, 1.0);
    }
    return out;
}

std::string TopView::state_of(const Session& session) const {
    if (session.claimed) {
        return "live";
    }
    const auto last = last_of_.find(session.seat);
    const bool released = last != last_of_.end() && last->second.type == "role.released";
    return released ? "ending" : "launching";
}

std::vector<std::string> TopView::head(int64_t now_ms) const {
    const auto sessions = [&](const char* state) {
        return count_text(metric("mosaic_sessions", {{"state", state}})) + " " + state;
    };
    const auto since = [&](const char* name) {
        const double started = metric(name);
        return started > 0 ? age_text(now_ms - std::llround(started * 1e3)) : "-";
    };
    const Rates now = rates(now_ms);
    const std::string busy = now.busy ? decimal(*now.busy * 100, 1) + "%" : "-";
    const std::string rate = now.launches ? decimal(*now.launches, 1) + "/s" : "-";
    std::vector<std::string> out;
    out.push_back("mosaic " + title_ + "  host up " + since("mosaic_host_start_time_seconds") +
                  ", broker " + since("mosaic_broker_start_time_seconds") +
                  (note_.empty() ? "" : "  [" + note_ + "]"));
    out.push_back("sessions  " + sessions("live") + ", " + sessions("launching") + ", " +
                  sessions("waiting") + ", " + sessions("ending") + ", " + sessions("warm"));
    out.push_back("launches  " + count_text(metric(kLaunches, {{"result", "launched"}})) + ", " +
                  rate + ", p50 " + time_text(launch_quantile(0.5)) + ", p99 " +
                  time_text(launch_quantile(0.99)) + ", " + count_text(refused()) + " refused");
    out.push_back("loop      " + busy + " busy, host " +
                  bytes_text(metric("mosaic_host_resident_memory_bytes")) + ", broker " +
                  bytes_text(metric("mosaic_broker_resident_memory_bytes")) + ", " +
                  count_text(metric("mosaic_broker_messages_queued")) + " messages queued");
    return out;
}

std::vector<std::string> TopView::table(int64_t now_ms) const {
    Table out({"INSTANCE", "RUN", "MODEL", "AGE", "STATE", "LAST EVENT"});
    for (const Session& session : sessions_) {
        const auto last = last_of_.find(session.seat);
        const std::string event =
            last != last_of_.end()
                ? last->second.type + " " + age_since(last->second.at_ms, now_ms) + " ago"
                : "-";
        out.add({session.seat,
                 session.run,
                 session.model,
                 age_since(session.bound_ms, now_ms),
                 state_of(session),
                 event});
    }
    std::vector<std::string> lines;
    const std::string text = out.text();
    for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at);
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

std::vector<std::string> TopView::draw(Size size, int64_t now_ms) const {
    constexpr size_t kEventsMin = 3;
    std::vector<std::string> lines = head(now_ms);
    lines.emplace_back();
    const std::vector<std::string> sessions = table(now_ms);
    // The sessions come first; the events have what is left, but some of it always.
    const size_t left = size.rows > lines.size() ? size.rows - lines.size() : 0;
    const size_t events_wanted = std::min(events_.size(), kEventsMin) + 1;
    const size_t for_sessions = left > events_wanted ? left - events_wanted : left;
    if (sessions.size() <= for_sessions) {
        lines.insert(lines.end(), sessions.begin(), sessions.end());
    } else if (for_sessions > 1) {
        const auto shown = static_cast<std::ptrdiff_t>(for_sessions - 1);
        lines.insert(lines.end(), sessions.begin(), sessions.begin() + shown);
        lines.push_back("... and " + std::to_string(sessions.size() - for_sessions + 1) + " more");
    }
    lines.emplace_back();
    const size_t room = size.rows > lines.size() ? size.rows - lines.size() : 0;
    const size_t skipped = events_.size() > room ? events_.size() - room : 0;
    for (size_t i = skipped; i < events_.size(); ++i) {
        lines.push_back(event_text(events_[i]));
    }
    lines.resize(std::min(lines.size(), size.rows));
    for (std::string& line : lines) {
        line = fit(line, size.columns);
    }
    return lines;
}

std::string TopView::text(int64_t now_ms) const {
    constexpr size_t kAny = std::numeric_limits<size_t>::max();
    std::string out;
    for (const std::string& line : draw({kAny, kAny}, now_ms)) {
        out += line + "\n";
    }
    return out;
}

json::Value TopView::to_value(int64_t now_ms) const {
    const Rates now = rates(now_ms);
    json::Object states;
    for (const char* state : {"live", "launching", "waiting", "ending", "warm"}) {
        states.emplace_back(state, whole(metric("mosaic_sessions", {{"state", state}})));
    }
    json::Value launches;
    launches.set("launched", whole(metric(kLaunches, {{"result", "launched"}})));
    launches.set("refused", whole(refused()));
    launches.set("perSecond", or_null(now.launches));
    launches.set("p50Seconds", or_null(launch_quantile(0.5)));
    launches.set("p99Seconds", or_null(launch_quantile(0.99)));
    json::Array sessions;
    for (const Session& session : sessions_) {
        json::Value one;
        one.set("seat", session.seat);
        one.set("run", session.run);
        one.set("harness", session.harness);
        one.set("model", session.model);
        one.set("state", state_of(session));
        one.set("boundAt",
                session.bound_ms ? json::Value(iso8601(*session.bound_ms)) : json::Value());
        const auto last = last_of_.find(session.seat);
        one.set("lastEvent",
                last != last_of_.end() ? json::Value(last->second.type) : json::Value());
        sessions.push_back(std::move(one));
    }
    json::Value out;
    out.set("at", iso8601(now_ms));
    out.set("hostUpSince", iso8601(std::llround(metric("mosaic_host_start_time_seconds") * 1e3)));
    out.set("counts", std::move(states));
    out.set("launches", std::move(launches));
    out.set("loopBusy", or_null(now.busy));
    out.set("sessions", std::move(sessions));
    out.set("events", json::Array(events_.begin(), events_.end()));
    return out;
}

}  // namespace mosaic::cli
