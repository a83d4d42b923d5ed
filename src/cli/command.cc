#include "cli/command.h"

#include <algorithm>

#include "cli/output.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

int exit_code_of(Verb verb, std::string_view code) {
    if (verb == Verb::launch && refusal_from(code)) {
        return exit_code::kRefused;  // whatever a launch is answered with, bad-request included
    }
    const bool may_not =
        code == to_string(BusError::not_human) || code == to_string(BusError::not_authorized) ||
        code == to_string(BusError::refused) || code == to_string(BusError::config_changed) ||
        code == to_string(BusError::config_invalid);
    if (code == to_string(BusError::bad_request) || code == to_string(BusError::too_large)) {
        return exit_code::kInvalidInput;
    }
    return may_not || refusal_from(code) ? exit_code::kRefused : exit_code::kFailed;
}

std::string_view code_of(const Error& error) {
    switch (error.code) {
        case Code::unavailable:
            return to_string(BusError::host_unavailable);
        case Code::missing:
            return to_string(BusError::not_found);
        case Code::unsafe:
            return "unsafe";
        case Code::invalid:
        case Code::too_large:
            return "invalid";
        case Code::held:
        case Code::corrupt:
        case Code::system:
            return "failed";
    }
    return "failed";
}

std::string start_of_host(const Context& context) {
    const std::string& business = context.place.business;
    const std::string& data = context.options.data;
    return "`mosaic-host --business " + (business.empty() ? "ID" : business) +
           (data.empty() ? "" : " --data " + data) + "`";
}

}  // namespace

void print_failure(std::string_view code, std::string_view message) {
    json::Value out;
    out.set("ok", false);
    out.set("error", code);
    out.set("message", message);
    ignore(print_json(out), "the exit code says it too");
}

Error never_served(const Context& context, Error error) {
    if (error.code == Code::missing) {
        error.text += "; no host has served it yet: " + start_of_host(context) + " starts one";
    }
    return error;
}

Result<AdminClient> connect_admin(const Context& context) {
    auto client = AdminClient::connect(registry::admin_socket_path(context.place.data_root));
    if (!client && client.error().code == Code::unavailable) {
        client.error().text += "; " + start_of_host(context) + " starts one";
    }
    return client;
}

int report(const Context& context, const Error& error) {
    complain(error.text);
    if (context.options.json) {
        print_failure(code_of(error), error.text);
    }
    return error.code == Code::corrupt ? exit_code::kRefused : exit_code::kFailed;
}

int report(const Context& context, const Failure& failure) {
    complain(failure.text);
    if (context.options.json) {
        print_failure(failure.exit_code == exit_code::kUsage ? "usage" : "invalid", failure.text);
    }
    return failure.exit_code;
}

int report(const Context& context, const wire::Reply& reply) {
    complain(reply.message.empty() ? reply.error : reply.error + ": " + reply.message);
    if (context.options.json) {
        print_failure(reply.error, reply.message);
    }
    return exit_code_of(context.options.verb, reply.error);
}

Asked<std::optional<json::Value>> ask_and_wait(const Context& context,
                                               AdminClient& client,
                                               Question question) {
    std::optional<Instant> until;
    if (question.within) {
        until = monotonic_now() + *question.within;
    }
    auto reply = client.call(question.verb, question.args, question.within);
    while (question.repeatable && !reply && reply.error().code == Code::unavailable) {
        // The host keeps the socket while it starts another broker; without a host this fails.
        auto next = connect_admin(context);
        if (!next) {
            return tl::unexpected<int>(report(context, next.error()));
        }
        client = std::move(*next);
        if (until) {
            question.within = Duration{std::max<int64_t>(0, (*until - monotonic_now()).ns)};
        }
        reply = client.call(question.verb, question.args, question.within);
    }
    if (!reply && reply.error().code == Code::missing) {
        return std::optional<json::Value>();
    }
    if (!reply) {
        return tl::unexpected<int>(report(context, reply.error()));
    }
    if (!reply->ok) {
        return tl::unexpected<int>(report(context, *reply));
    }
    return std::optional<json::Value>(std::move(reply->result));
}

Asked<json::Value> ask(const Context& context, AdminClient& client, Question question) {
    const std::string verb(question.verb);
    auto result = ask_and_wait(context, client, std::move(question));
    if (!result) {
        return tl::unexpected<int>(result.error());
    }
    if (!*result) {
        return tl::unexpected<int>(
            report(context, Error{Code::unavailable, 0, verb + ": no reply came in time"}));
    }
    return std::move(**result);
}

int finish(const Result<void>& printed) {
    if (!printed) {
        complain(printed.error().text);
        return exit_code::kFailed;
    }
    return exit_code::kFine;
}

}  // namespace mosaic::cli
