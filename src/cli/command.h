#pragma once

#include <string>

#include "base/error.h"
#include "cli/admin_client.h"
#include "cli/options.h"
#include "cli/place.h"
#include "config/config.h"
#include "wire/messages.h"

// The commands. Each prints its result on standard output, what went wrong on standard error, and
// returns the exit code. With --json a failure that the broker or the host answered stands on
// standard output too, as {"ok":false,"error":"<code>","message":"…"}.

namespace mosaic::cli {

struct Context {
    Options options;
    Place place;  // not for init, doctor, config, version
    config::Environment env;
};

int run_launch(const Context& context);
int run_ps(const Context& context);
int run_stop(const Context& context);
int run_send(const Context& context);
int run_inbox(const Context& context);
int run_log(const Context& context);
int run_events(const Context& context);
int run_top(const Context& context);
int run_launches(const Context& context);
int run_decisions(const Context& context);
int run_decide(const Context& context);
int run_tasks(const Context& context);
int run_routes(const Context& context);
int run_routes_set(const Context& context);
int run_limits_set(const Context& context);
int run_instances_set(const Context& context);
int run_plugins(const Context& context);
int run_plugins_set(const Context& context);
int run_reload(const Context& context);
int run_metrics(const Context& context);
int run_sandbox_show(const Context& context);
int run_sandbox_shell(const Context& context);
int run_doctor(const Context& context);
int run_config(const Context& context);
int run_init(const Context& context);
int run_service_install(const Context& context);
int run_version(const Context& context);

// ---- what they share ----

// Requests that need no work of the host's answer within it.
constexpr Duration kReplyWithin = seconds(30);
// A launch waits for its set-up for a minute at most and for its stages after it.
constexpr Duration kLaunchWithin = seconds(180);

// For what works from a host's files: an error that they are missing also says how a host, which
// makes them, is started.
[[nodiscard]] Error never_served(const Context& context, Error error);

// A connection to this place's admin.sock. The error says how a host is started.
[[nodiscard]] Result<AdminClient> connect_admin(const Context& context);

// {"ok":false,"error":…,"message":…} on standard output: how --json says that something failed.
void print_failure(std::string_view code, std::string_view message);

// Says what is wrong and returns the exit code that an Error of this kind means.
int report(const Context& context, const Error& error);

// The same for one that has its exit code.
int report(const Context& context, const Failure& failure);

// The same for a reply that refuses: exit 3 for every refusal code, for what the caller may not do
// or can't change any more, and for configuration that doesn't hold, 2 for a malformed request,
// else 1.
int report(const Context& context, const wire::Reply& reply);

// One request's result; or, when anything went wrong, the exit code after that was reported.
template <class T>
using Asked = tl::expected<T, int>;

struct Question {
    std::string_view verb;
    json::Value args;
    std::optional<Duration> within = kReplyWithin;  // kNoDeadline: as long as it takes
    // Asking twice does no harm: when the broker dies over it, it is asked again at the next one.
    bool repeatable = false;
};

[[nodiscard]] Asked<json::Value> ask(const Context& context,
                                     AdminClient& client,
                                     Question question);

// The same for a request that may stay open: nothing when the time has passed.
[[nodiscard]] Asked<std::optional<json::Value>> ask_and_wait(const Context& context,
                                                             AdminClient& client,
                                                             Question question);

// Prints a result or says why that failed.
int finish(const Result<void>& printed);

}  // namespace mosaic::cli
