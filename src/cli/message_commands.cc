// send and inbox.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/sessions_view.h"
#include "wire/codes.h"
#include "wire/limits.h"

namespace mosaic::cli {
namespace {

Result<std::string> read_standard_input() {
    std::string out;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
    std::array<char, 65536> buffer;
    while (out.size() <= limits::kMessageBodyBytesMax) {
        const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_sys(errno, "standard input");
        }
        if (n == 0) {
            break;
        }
        out.append(buffer.data(), static_cast<size_t>(n));
    }
    return out;
}

Result<std::string> body_of(const Options& options) {
    std::string body = options.body;
    if (options.body == "-") {
        MOSAIC_TRY_ASSIGN(body, read_standard_input());
    }
    if (body.empty()) {
        return fail(Code::invalid, "the message is empty");
    }
    if (body.size() > limits::kMessageBodyBytesMax) {
        return fail(Code::too_large, "a message may have 160 KiB");
    }
    if (valid_utf8_prefix(body) != body.size()) {
        return fail(
            Code::invalid,
            "byte " + std::to_string(valid_utf8_prefix(body)) + " of the message is no UTF-8");
    }
    return body;
}

json::Value sent_value(const std::string& id, const wire::Message* reply) {
    json::Value out;
    out.set("id", id);
    json::Value answer;
    if (reply != nullptr) {
        answer.set("from", reply->from);
        answer.set("body", reply->body);
    }
    out.set("reply", answer);
    return out;
}

// With the newline that ends it, whether the body has one or not.
std::string body_text(const std::string& body) {
    std::string out = escape_for_terminal(body);
    if (out.empty() || out.back() != '\n') {
        out += '\n';
    }
    return out;
}

int no_reply(const Context& context, const std::string& id) {
    complain("no reply to " + id + " from " + context.options.target + " came in time");
    if (context.options.json) {
        ignore(print_json(sent_value(id, nullptr)), "the exit code says it too");
    }
    return exit_code::kFailed;
}

int wait_for_reply(const Context& context, AdminClient& client, const std::string& id) {
    const wire::MessageReceiveArgs args{.wait = true, .in_reply_to = id};
    const auto answer = ask_and_wait(
        context, client, {"message.receive", args.to_value(), *context.options.wait, true});
    if (!answer) {
        return answer.error();
    }
    if (!*answer) {
        return no_reply(context, id);
    }
    const auto received = wire::MessageReceiveResult::from(**answer);
    if (!received) {
        return report(context, received.error());
    }
    if (!received->message) {
        return no_reply(context, id);
    }
    if (context.options.json) {
        return finish(print_json(sent_value(id, &*received->message)));
    }
    return finish(print(body_text(received->message->body)));
}

// A message to a seat that doesn't run is kept, and answered only after its next launch.
void say_when_nobody_listens(const Context& context) {
    const Seat seat{context.options.target, context.options.thread};
    const auto file = read_sessions(context.place.data_root);
    if (!file) {
        return;
    }
    const bool runs =
        std::any_of(file->entries.begin(), file->entries.end(), [&](const auto& entry) {
            return !entry.warm && entry.seat == seat;
        });
    if (!runs) {
        complain("note: " + describe(seat) + " isn't running; the message waits for its launch");
    }
}

int print_sent(const Context& context, const std::string& id) {
    if (context.options.json) {
        json::Value out;
        out.set("id", id);
        return finish(print_json(out));
    }
    return finish(print(one_line(id) + "\n"));
}

// Set in, so that nothing in a body looks like the head of another message.
std::string indented(const std::string& text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
        out += text[at] == '\n' ? "" : "  ";
        out += text.substr(at, end - at);
        at = end;
    }
    return out;
}

std::string message_text(const wire::Message& message) {
    const std::string from =
        message.from_thread.empty() ? message.from : message.from + "/" + message.from_thread;
    std::string head = message.id + " from " + from + ", " + message.at + ", " +
                       std::string(to_string(message.message_class));
    if (!message.in_reply_to.empty()) {
        head += " to " + message.in_reply_to;
    }
    return one_line(head) + "\n" + indented(body_text(message.body)) + "\n";
}

// The next message, waiting for it when `wait` says so; none when there is none (in time).
Asked<std::optional<wire::Message>> next_message(const Context& context,
                                                 AdminClient& client,
                                                 std::optional<Duration> wait) {
    const wire::MessageReceiveArgs args{.wait = wait.has_value(), .in_reply_to = ""};
    const auto answer = ask_and_wait(
        context, client, {"message.receive", args.to_value(), wait.value_or(kReplyWithin), true});
    if (!answer) {
        return tl::unexpected<int>(answer.error());
    }
    if (!*answer) {
        return std::optional<wire::Message>();
    }
    auto received = wire::MessageReceiveResult::from(**answer);
    if (!received) {
        return tl::unexpected<int>(report(context, received.error()));
    }
    return std::move(received->message);
}

// Printed first, acknowledged after: a message that nobody could read stays.
int show_and_ack(const Context& context, AdminClient& client, const wire::Message& message) {
    const Result<void> printed =
        context.options.json ? print_json(message.to_value()) : print(message_text(message));
    if (!printed || context.options.peek) {
        return finish(printed);
    }
    const auto acked =
        ask(context, client, {"message.ack", wire::MessageAckArgs{message.id}.to_value()});
    return acked ? exit_code::kFine : acked.error();
}

}  // namespace

int run_send(const Context& context) {
    auto body = body_of(context.options);
    if (!body) {
        report(context, body.error());
        return exit_code::kInvalidInput;
    }
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    wire::MessageSendArgs args;
    args.to = {context.options.target, context.options.thread};
    args.body = std::move(*body);
    const auto sent = ask(context, *client, {"message.send", args.to_value()});
    if (!sent) {
        return sent.error();
    }
    const json::Value* id = sent->find("id");
    if (id == nullptr || id->string() == nullptr) {
        return report(context, Error{Code::invalid, 0, "message.send: the reply has no id"});
    }
    if (sent->find("inbox") != nullptr) {
        complain("note: " + context.options.target +
                 " is no role but the human; the message is in the inbox");
    } else {
        say_when_nobody_listens(context);
    }
    return context.options.wait ? wait_for_reply(context, *client, *id->string())
                                : print_sent(context, *id->string());
}

int run_inbox(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    size_t shown = 0;
    // Waiting is for the first message; what else is there comes without.
    std::optional<Duration> wait;
    while (true) {
        const auto message = next_message(context, *client, wait);
        if (!message) {
            return message.error();
        }
        if (!*message && shown == 0 && context.options.wait && !wait) {
            wait = context.options.wait;
            continue;
        }
        if (!*message && shown == 0 && context.options.wait) {
            complain("no message came in time");
            return exit_code::kFailed;
        }
        if (!*message) {
            return exit_code::kFine;
        }
        const int code = show_and_ack(context, *client, **message);
        if (code != exit_code::kFine || context.options.peek) {
            return code;
        }
        wait.reset();
        ++shown;
    }
}

}  // namespace mosaic::cli
