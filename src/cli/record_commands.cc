// log, events, launches, decide and version.

#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "registry/launch_log.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

namespace fs = std::filesystem;

std::string log_text(const registry::LogRecord& record) {
    const std::string run = record.run.empty() ? "-" : record.run;
    return one_line(record.at + " " + record.event + " " + describe(record.seat) + " " + run +
                    rest_of(record.value, {"at", "event", "instance", "thread", "run"})) +
           "\n";
}

// The log's business: --business, else the one that has a log in this data root.
Result<std::string> log_business(const Place& place) {
    if (!place.business.empty()) {
        return place.business;
    }
    const std::string directory = registry::launches_dir(place.data_root);
    std::string found;
    std::error_code error;
    for (auto at = fs::directory_iterator(directory, error);
         !error && at != fs::directory_iterator();
         at.increment(error)) {
        const fs::path& path = at->path();
        if (path.extension() != ".jsonl" || !is_id(path.stem().string())) {
            continue;
        }
        if (!found.empty()) {
            return fail(Code::invalid, directory + ": holds several logs; give --business");
        }
        found = path.stem().string();
    }
    if (found.empty()) {
        return fail(Code::missing, directory + ": there is no launch log yet");
    }
    return found;
}

Result<void> print_log_line(const Context& context, const std::string& line) {
    const auto record = registry::parse_log_line(line);
    const std::string& run = context.options.run;
    if (!record || (!run.empty() && record->run != run)) {
        return {};  // a line that a crash cut short belongs to nobody
    }
    return context.options.json ? print_json(record->value) : print(log_text(*record));
}

Result<void> print_log(const Context& context, LineFollower& follower) {
    while (true) {
        MOSAIC_TRY_ASSIGN(const std::optional<std::string> line, follower.next());
        if (line) {
            MOSAIC_TRY(print_log_line(context, *line));
        } else if (context.options.follow) {
            MOSAIC_TRY(follower.wait());
        } else {
            return {};
        }
    }
}

// Prints a batch; the number to go on from.
Asked<int64_t> print_events(const Context& context, const json::Value& result) {
    const json::Value* events = result.find("events");
    const json::Value* next = result.find("next");
    if (events == nullptr || events->array() == nullptr || next == nullptr ||
        next->integer() == nullptr) {
        return tl::unexpected<int>(
            report(context, Error{Code::invalid, 0, "events: the reply has another shape"}));
    }
    for (const json::Value& event : *events->array()) {
        if (event.object() == nullptr) {
            continue;
        }
        const Result<void> printed =
            context.options.json ? print_json(event) : print(event_text(event) + "\n");
        if (!printed) {
            return tl::unexpected<int>(finish(printed));
        }
    }
    return *next->integer();
}

int stream_events(const Context& context, AdminClient& client) {
    int64_t since = context.options.since;
    int64_t last = context.options.last;
    while (true) {
        const wire::EventsArgs args{
            .since = since, .follow = context.options.follow, .last = std::exchange(last, 0)};
        const std::optional<Duration> within =
            context.options.follow ? kNoDeadline : std::optional<Duration>(kReplyWithin);
        const auto answer = ask(context, client, {"events", args.to_value(), within, true});
        if (!answer) {
            return answer.error();
        }
        const auto next = print_events(context, *answer);
        if (!next) {
            return next.error();
        }
        if (!context.options.follow && *next == since) {
            return exit_code::kFine;
        }
        since = *next;
    }
}

int switch_launches(const Context& context, std::string_view verb, bool allowed) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const auto result = ask(context, *client, {verb, json::Value(json::Object{})});
    if (!result) {
        return result.error();
    }
    return finish(context.options.json
                      ? print_json(*result)
                      : print(allowed ? "sessions may launch\n" : "sessions may not launch\n"));
}

}  // namespace

int run_log(const Context& context) {
    const auto business = log_business(context.place);
    if (!business) {
        return report(context, business.error());
    }
    auto follower = LineFollower::open(registry::launches_dir(context.place.data_root),
                                       registry::launch_log_name(*business),
                                       context.options.follow);
    if (!follower) {
        return report(context, never_served(context, follower.error()));
    }
    const Result<void> printed = print_log(context, *follower);
    return printed ? exit_code::kFine : report(context, printed.error());
}

int run_events(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    return stream_events(context, *client);
}

int run_launches(const Context& context) {
    const bool allow = context.options.verb == Verb::launches_allow;
    return switch_launches(context, allow ? "launches.allow" : "launches.revoke", allow);
}

int run_decide(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const wire::DecideArgs args{
        .id = context.options.target, .allow = context.options.allow, .note = context.options.note};
    const auto result = ask(context, *client, {"decide", args.to_value()});
    if (!result) {
        return result.error();
    }
    return finish(context.options.json
                      ? print_json(*result)
                      : print(one_line(args.id) + (args.allow ? ": allowed\n" : ": denied\n")));
}

int run_version(const Context& context) {
    json::Value out;
    out.set("version", MOSAIC_VERSION);
    return finish(context.options.json ? print_json(out) : print("mosaic " MOSAIC_VERSION "\n"));
}

}  // namespace mosaic::cli
