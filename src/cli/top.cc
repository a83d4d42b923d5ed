// top: the sessions, launches and events of one business on a terminal, as they change.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "cli/admin_stream.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/top_screen.h"
#include "cli/top_view.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

// Counters tell nothing by an event, so they are asked for at least so often.
constexpr Duration kLookEvery = seconds(2);
// A flood of events makes no flood of questions, and no more pictures than an eye follows.
constexpr Duration kQuestionsApart = milliseconds(250);
constexpr Duration kPicturesApart = milliseconds(100);
constexpr Duration kConnectAgain = milliseconds(500);
// An answer that takes longer is told to whoever looks.
constexpr Duration kAnswerTakes = seconds(6);
constexpr int64_t kEventsOfSnapshot = 10;

std::string title_of(const Place& place) {
    const std::string root = place.data_root.substr(place.data_root.rfind('/') + 1);
    return place.business.empty() ? root : place.business;
}

class Top {
  public:
    Top(const Context& context, AdminStream stream, Screen& screen)
        : path_(registry::admin_socket_path(context.place.data_root)),
          screen_(screen),
          view_(title_of(context.place)) {
        begin(std::move(stream));
    }

    // The exit code, or why it can't go on.
    Result<int> run() {
        while (!leaves_) {
            const Instant now = monotonic_now();
            look_after(now);
            if (picture_due_ && now >= next_picture_) {
                MOSAIC_TRY(draw(now));
            }
            MOSAIC_TRY(wait());
        }
        if (refusal_) {
            return fail(Code::unsafe, *refusal_);
        }
        return exit_code::kFine;
    }

  private:
    std::string path_;
    Screen& screen_;
    TopView view_;
    std::optional<AdminStream> stream_;
    int64_t events_asked_ = 0;  // numbers of requests that wait for their reply; 0: none does
    int64_t sessions_asked_ = 0;
    int64_t metrics_asked_ = 0;
    bool had_events_ = false;
    int64_t since_ = 0;
    bool sessions_due_ = true;
    Instant next_sessions_;
    Instant next_metrics_;
    Instant next_connect_;
    Instant next_picture_;
    Instant answered_;  // when something came last
    bool picture_due_ = true;
    bool leaves_ = false;
    std::optional<std::string> refusal_;

    void begin(AdminStream stream) {
        stream_.emplace(std::move(stream));
        events_asked_ = sessions_asked_ = metrics_asked_ = 0;
        const Instant now = monotonic_now();
        sessions_due_ = true;
        next_sessions_ = now;
        next_metrics_ = now;
        answered_ = now;
        view_.set_note("");
    }

    // What is due: a connection, questions, a note that nobody answers.
    void look_after(Instant now) {
        if (!stream_) {
            if (now < next_connect_) {
                return;
            }
            auto next = AdminStream::connect(path_);
            if (!next) {
                lose(now, "no host answers; trying again");
                return;
            }
            begin(std::move(*next));
        }
        if (events_asked_ == 0) {
            wire::EventsArgs args{.since = since_, .follow = had_events_};
            args.last = had_events_ ? 0 : int64_t{kTopEventsMax};
            events_asked_ = stream_->ask("events", args.to_value());
        }
        if (sessions_asked_ == 0 && sessions_due_ && now >= next_sessions_) {
            sessions_due_ = false;
            next_sessions_ = now + kQuestionsApart;
            sessions_asked_ = stream_->ask("sessions", json::Object{});
        }
        if (metrics_asked_ == 0 && now >= next_metrics_) {
            sessions_due_ = true;
            next_metrics_ = now + kLookEvery;
            metrics_asked_ = stream_->ask("metrics", json::Object{});
        }
        if (now - answered_ > kAnswerTakes) {
            note("no answer for a while");
        }
    }

    void note(const std::string& text) {
        view_.set_note(text);
        picture_due_ = true;
    }

    void lose(Instant now, const std::string& why) {
        stream_.reset();
        next_connect_ = now + kConnectAgain;
        note(why);
    }

    Result<void> draw(Instant now) {
        picture_due_ = false;
        next_picture_ = now + kPicturesApart;
        const Screen::Size size = screen_.size();
        return screen_.show(view_.draw({size.rows, size.columns}, wall_clock_ms()));
    }

    [[nodiscard]] int timeout_ms() const {
        const Instant now = monotonic_now();
        Instant next = now + kLookEvery;
        if (picture_due_) {
            next = std::min(next, next_picture_);
        }
        if (!stream_) {
            next = std::min(next, next_connect_);
        } else {
            next = metrics_asked_ == 0 ? std::min(next, next_metrics_) : next;
            next = sessions_asked_ == 0 && sessions_due_ ? std::min(next, next_sessions_) : next;
        }
        const int64_t left = std::max<int64_t>((next - now).ns, 0);
        return static_cast<int>((left + 999'999) / 1'000'000);
    }

    Result<void> wait() {
        std::array<pollfd, 3> polls = {{{STDIN_FILENO, POLLIN, 0},
                                        {screen_.signals(), POLLIN, 0},
                                        {stream_ ? stream_->fd() : -1, POLLIN, 0}}};
        polls[2].events = stream_ ? stream_->wanted() : short{0};
        if (::poll(polls.data(), polls.size(), timeout_ms()) < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (polls[0].revents != 0) {
            take_keys();
        }
        if (polls[1].revents != 0) {
            take_signals();
        }
        if (stream_ && polls[2].revents != 0) {
            take_replies();
        }
        return {};
    }

    void take_keys() {
        constexpr char kControlC = '\x03';
        constexpr char kControlZ = '\x1a';
        std::array<char, 64> keys{};
        const ssize_t n = ::read(STDIN_FILENO, keys.data(), keys.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            return;
        }
        if (n <= 0) {
            leaves_ = true;  // the terminal is gone
            return;
        }
        for (ssize_t i = 0; i < n; ++i) {
            const char key = keys[static_cast<size_t>(i)];
            leaves_ = leaves_ || key == 'q' || key == 'Q' || key == kControlC;
            if (key == kControlZ) {
                stop_here();
            }
        }
        picture_due_ = true;
    }

    void take_signals() {
        while (const int signal = screen_.next_signal()) {
            if (signal == SIGTSTP) {
                stop_here();
            } else if (signal != SIGWINCH) {
                leaves_ = true;
            }
        }
        picture_due_ = true;
    }

    void stop_here() {
        screen_.stop_here();
        picture_due_ = true;
    }

    void take_replies() {
        auto replies = stream_->work();
        const Instant now = monotonic_now();
        if (!replies) {
            lose(now, "the broker is gone; trying again");
            return;
        }
        for (const wire::Reply& reply : *replies) {
            answered_ = now;
            view_.set_note("");
            if (const auto taken = take(reply, now); !taken) {
                lose(now, taken.error().text);
                return;
            }
        }
        picture_due_ = picture_due_ || !replies->empty();
    }

    Result<void> take(const wire::Reply& reply, Instant now) {
        if (reply.id == 0) {
            // About us and not about a request: asking again gives the same.
            refusal_ = reply.error + ": " + reply.message;
            leaves_ = true;
            return {};
        }
        int64_t& asked = reply.id == events_asked_     ? events_asked_
                         : reply.id == sessions_asked_ ? sessions_asked_
                                                       : metrics_asked_;
        const bool events = reply.id == events_asked_;
        const bool sessions = reply.id == sessions_asked_;
        const bool metrics = reply.id == metrics_asked_;
        if (reply.ok && events) {
            MOSAIC_TRY_ASSIGN(since_, view_.take_events(reply.result));
            had_events_ = true;
            sessions_due_ = true;
        } else if (reply.ok && sessions) {
            MOSAIC_TRY(view_.take_sessions(reply.result));
        } else if (reply.ok && metrics) {
            MOSAIC_TRY(view_.take_metrics(reply.result, now));
        } else if (events || sessions || metrics) {
            return fail(Code::unavailable, reply.error + "; trying again");
        }
        if (events || sessions || metrics) {
            asked = 0;
        }
        return {};
    }
};

// All three questions once.
Asked<TopView> look_once(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return tl::unexpected<int>(report(context, client.error()));
    }
    TopView view(title_of(context.place));
    const wire::EventsArgs events{.since = 0, .follow = false, .last = kEventsOfSnapshot};
    const auto answered = [&](const char* verb, json::Value args, auto take) -> std::optional<int> {
        const auto answer = ask(context, *client, {verb, std::move(args), kReplyWithin, true});
        if (!answer) {
            return answer.error();
        }
        const Result<void> taken = take(*answer);
        return taken ? std::nullopt : std::optional(report(context, taken.error()));
    };
    auto failed = answered("events", events.to_value(), [&](const json::Value& result) {
        const auto next = view.take_events(result);
        return next ? Result<void>() : Result<void>(tl::unexpected<Error>(next.error()));
    });
    if (!failed) {
        failed = answered("sessions", json::Object{}, [&](const json::Value& result) {
            return view.take_sessions(result);
        });
    }
    if (!failed) {
        failed = answered("metrics", json::Object{}, [&](const json::Value& result) {
            return view.take_metrics(result, monotonic_now());
        });
    }
    if (failed) {
        return tl::unexpected<int>(*failed);
    }
    return view;
}

int watch(const Context& context) {
    if (!has_terminal()) {
        complain("top: needs a terminal; --once prints one snapshot, --json one for programs");
        return exit_code::kUsage;
    }
    // Before the screen is taken, so that it is said where it stays readable.
    if (const auto there = connect_admin(context); !there) {
        return report(context, there.error());
    }
    auto stream = AdminStream::connect(registry::admin_socket_path(context.place.data_root));
    if (!stream) {
        return report(context, stream.error());
    }
    Result<int> ended = exit_code::kFine;
    {
        auto screen = Screen::take();
        if (!screen) {
            return report(context, screen.error());
        }
        ended = Top(context, std::move(*stream), *screen).run();
    }
    if (ended) {
        return *ended;
    }
    complain(ended.error().text);
    return ended.error().code == Code::unsafe ? exit_code::kRefused : exit_code::kFailed;
}

}  // namespace

int run_top(const Context& context) {
    if (!context.options.once && !context.options.json) {
        return watch(context);
    }
    const auto view = look_once(context);
    if (!view) {
        return view.error();
    }
    return finish(context.options.json ? print_json(view->to_value(wall_clock_ms()))
                                       : print(view->text(wall_clock_ms())));
}

}  // namespace mosaic::cli
