// Goal: who may send what to whom, and that a receiver gets its messages in order until it acks
// them.

#include "bench.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

namespace {

std::string id_of(const Outcome& sent) {
    REQUIRE_MESSAGE(sent.reply.ok, sent.reply.message);
    return text_of(sent.reply.result, "id");
}

std::optional<wire::Message> received(const Outcome& outcome) {
    REQUIRE_MESSAGE(outcome.kind == Outcome::Kind::reply, "still waits");
    REQUIRE_MESSAGE(outcome.reply.ok, outcome.reply.message);
    const auto result = wire::MessageReceiveResult::from(outcome.reply.result);
    REQUIRE(result);
    return result->message;
}

json::Value wait_args(bool wait, const std::string& in_reply_to = "") {
    return wire::MessageReceiveArgs{wait, in_reply_to}.to_value();
}

json::Value ack_args(const std::string& id) {
    return wire::MessageAckArgs{id}.to_value();
}

}  // namespace

TEST_CASE("a message reaches its seat with sender, class, time and the state's facts") {
    Bench bench;
    auto pm = bench.claimed({"pm", "t9"}, kPmRun);
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    auto args = letter({"coder", ""}, "b\xc3\xa4r\n");
    args.message_class = wire::MessageClass::note;
    const auto sent = bench.ask(pm, "message.send", args.to_value());
    CHECK(id_of(sent) == "m1");
    CHECK(sent.mailboxes == std::vector<Seat>{{"coder", ""}});
    const auto events = bench.events("message.sent");
    REQUIRE(events.size() == 1);
    CHECK(text_of(events[0], "id") == "m1");
    CHECK(text_of(events[0], "from") == "pm/t9");
    CHECK(text_of(events[0], "to") == "coder");
    CHECK(text_of(events[0], "class") == "NOTE");

    const auto out = bench.ask(coder, "message.receive", kNothing);
    const auto message = received(out);
    REQUIRE(message);
    CHECK(message->id == "m1");
    CHECK(message->from == "pm");
    CHECK(message->from_thread == "t9");
    CHECK(message->message_class == wire::MessageClass::note);
    CHECK(message->body == "b\xc3\xa4r\n");
    CHECK(message->at.size() == 24);
    const auto result = wire::MessageReceiveResult::from(out.reply.result);
    CHECK(result->state.launches_allowed);
    CHECK(result->state.launches_switched_at.empty());
    CHECK(result->state.open_tasks == 0);
    CHECK(result->state.read_at.size() == 24);
}

TEST_CASE("the facts say when launches were switched, with or without a message") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    REQUIRE(bench.human("launches.revoke", kNothing).reply.ok);
    const auto out = bench.ask(coder, "message.receive", kNothing);
    const auto result = wire::MessageReceiveResult::from(out.reply.result);
    REQUIRE(result);
    CHECK_FALSE(result->message);
    CHECK_FALSE(result->state.launches_allowed);
    CHECK(result->state.launches_switched_at.size() == 24);
}

TEST_CASE("messages come one at a time, in order, the next only after the ack") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    for (const char* body : {"one", "two", "three"}) {
        REQUIRE(bench.human("message.send", letter({"coder", ""}, body).to_value()).reply.ok);
    }
    CHECK(received(bench.ask(coder, "message.receive", wait_args(true)))->body == "one");
    CHECK(bench.ask(coder, "message.receive", wait_args(true)).kind == Outcome::Kind::wait);
    CHECK(received(bench.ask(coder, "message.receive", wait_args(false)))->body == "one");
    CHECK(bench.ask(coder, "message.ack", ack_args("m2")).reply.error == "not-found");
    REQUIRE(bench.ask(coder, "message.ack", ack_args("m1")).reply.ok);
    REQUIRE(bench.ask(coder, "message.ack", ack_args("m1")).reply.ok);  // a repeat is fine
    CHECK(received(bench.ask(coder, "message.receive", wait_args(true)))->body == "two");
}

TEST_CASE(
    "a message that wasn't acked is delivered again on the next connection and to the next run") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    REQUIRE(bench.human("message.send", letter({"coder", ""}, "one").to_value()).reply.ok);
    CHECK(received(bench.ask(coder, "message.receive", wait_args(true)))->id == "m1");
    coder.caller.delivered = 0;  // what a new connection begins with
    CHECK(received(bench.ask(coder, "message.receive", wait_args(true)))->id == "m1");
    REQUIRE(bench.host("endLaunch", ending({"coder", ""}, kCoderRun).to_value()).reply.ok);
    auto next = bench.claimed({"coder", ""}, kMuteRun);
    CHECK(received(bench.ask(next, "message.receive", wait_args(true)))->id == "m1");
}

TEST_CASE("a seat that nobody holds keeps its messages, a thread has a queue of its own") {
    Bench bench;
    REQUIRE(bench.human("message.send", letter({"coder", "t1"}, "threaded").to_value()).reply.ok);
    auto plain = bench.claimed({"coder", ""}, kCoderRun);
    CHECK_FALSE(received(bench.ask(plain, "message.receive", kNothing)));
    auto thread = bench.claimed({"coder", "t1"}, kMuteRun);
    CHECK(received(bench.ask(thread, "message.receive", kNothing))->body == "threaded");
    CHECK(bench.ask(plain, "message.ack", ack_args("m1")).reply.error == "not-found");
}

TEST_CASE("unknown receivers, unreceived originals and oversized bodies are refused") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const auto send = [&](const wire::MessageSendArgs& args) {
        return bench.ask(pm, "message.send", args.to_value()).reply.error;
    };
    CHECK(send(letter({"nobody", ""}, "x")) == "not-found");
    CHECK(send(letter({"jordan", "t"}, "x")) == "not-found");
    CHECK(send(letter({"coder", ""}, std::string(limits::kMessageBodyBytesMax + 1, 'x'))) ==
          "too-large");
    CHECK(send(letter({"coder", ""}, std::string(limits::kMessageBodyBytesMax, 'x'))).empty());
    auto reply = letter({"jordan", ""}, "x");
    for (const char* original : {"m1", "m99", "m", "x1"}) {
        reply.in_reply_to = original;  // m1 went to coder
        CHECK(send(reply) == "not-found");
    }
    CHECK(bench.ask(pm, "message.send", kNothing).reply.error == "bad-request");
    CHECK(bench.events("message.sent").size() == 1);
}

TEST_CASE("the longest body fits a frame however its bytes are written") {
    Bench bench;
    auto coder = bench.claimed({"coder", std::string(kIdBytesMax, 't')}, kCoderRun);
    const std::string body(limits::kMessageBodyBytesMax, '\x01');
    REQUIRE(bench.human("message.send", letter(coder.seat, body).to_value()).reply.ok);
    const auto out = bench.ask(coder, "message.receive", kNothing);
    CHECK(received(out)->body == body);
    CHECK(wire::encode(out.reply).size() <= limits::kFrameBytesMax);
}

TEST_CASE("a message of the human to the human is answered with where it is") {
    Bench bench;
    const auto own = bench.human("message.send", letter({"jordan", ""}, "note").to_value());
    CHECK(own.reply.result == json::Value(json::Object{{"id", "m1"}, {"inbox", true}}));
    const auto other = bench.human("message.send", letter({"coder", ""}, "hi").to_value());
    CHECK(other.reply.result == json::Value(json::Object{{"id", "m2"}}));
}

TEST_CASE("a role without message.send is refused, the human never") {
    Bench bench;
    auto mute = bench.claimed({"mute", ""}, kMuteRun);
    CHECK(bench.ask(mute, "message.send", letter({"pm", ""}, "x").to_value()).reply.error ==
          "not-authorized");
    CHECK(bench.human("message.send", letter({"mute", ""}, "x").to_value()).reply.ok);
}

TEST_CASE("who was asked may answer its asker without authority to speak up") {
    Bench bench;
    auto mute = bench.claimed({"mute", ""}, kMuteRun);
    const std::string question =
        id_of(bench.human("message.send", letter({"mute", ""}, "how?").to_value()));
    auto args = letter({"jordan", ""}, "so");
    args.message_class = wire::MessageClass::reply;
    args.in_reply_to = question;
    CHECK(bench.ask(mute, "message.send", args.to_value()).reply.ok);
    args.to = {"pm", ""};
    CHECK(bench.ask(mute, "message.send", args.to_value()).reply.error == "not-authorized");
    args.to = {"jordan", ""};
    args.message_class = wire::MessageClass::request;
    CHECK(bench.ask(mute, "message.send", args.to_value()).reply.error == "not-authorized");
}

TEST_CASE("the same reply of the same run counts once, another one counts") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    const std::string question =
        id_of(bench.human("message.send", letter({"coder", ""}, "how?").to_value()));
    auto args = letter({"jordan", ""}, "so");
    args.message_class = wire::MessageClass::reply;
    args.in_reply_to = question;
    const std::string first = id_of(bench.ask(coder, "message.send", args.to_value()));
    CHECK(id_of(bench.ask(coder, "message.send", args.to_value())) == first);
    args.body = "or so";
    CHECK(id_of(bench.ask(coder, "message.send", args.to_value())) != first);
    CHECK(bench.events("message.sent").size() == 3);
}

TEST_CASE("a message that is sent again with its key is stored once whatever the quota says now") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    auto args = letter({"coder", ""}, "build it");
    args.key = "7";
    const std::string first = id_of(bench.ask(pm, "message.send", args.to_value()));
    for (size_t i = 1; i < limits::kQueuedPerSenderMax; ++i) {
        REQUIRE(bench.ask(pm, "message.send", letter({"coder", ""}, "x").to_value()).reply.ok);
    }
    CHECK(id_of(bench.ask(pm, "message.send", args.to_value())) == first);
    // The same words with another key, or with none, are another message.
    args.key = "8";
    CHECK(bench.ask(pm, "message.send", args.to_value()).reply.error == "quota-exceeded");
    REQUIRE(bench.ask(coder, "message.receive", kNothing).reply.ok);
    REQUIRE(bench.ask(coder, "message.ack", ack_args(first)).reply.ok);
    CHECK(id_of(bench.ask(pm, "message.send", args.to_value())) != first);
    // One that was acked meanwhile is still known.
    args.key = "7";
    CHECK(id_of(bench.ask(pm, "message.send", args.to_value())) == first);
    CHECK(bench.events("message.sent").size() == limits::kQueuedPerSenderMax + 1);
}

TEST_CASE("a key counts for its own run and its own message") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    auto other = bench.claimed({"pm", "t1"}, "r000000000003");
    auto args = letter({"coder", ""}, "build it");
    args.key = "7";
    const std::string first = id_of(bench.ask(pm, "message.send", args.to_value()));
    CHECK(id_of(bench.ask(other, "message.send", args.to_value())) != first);
    args.body = "build that";
    const auto refused = bench.ask(pm, "message.send", args.to_value());
    CHECK(refused.reply.error == "bad-request");
    CHECK(refused.reply.message.find(first) != std::string::npos);
    // The same words as the answer to something are another message, too.
    const std::string question =
        id_of(bench.human("message.send", letter({"pm", ""}, "done?").to_value()));
    args.body = "build it";
    args.in_reply_to = question;
    CHECK(bench.ask(pm, "message.send", args.to_value()).reply.error == "bad-request");
    args.in_reply_to.clear();
    CHECK(id_of(bench.ask(pm, "message.send", args.to_value())) == first);
    args.key = std::string(limits::kSendKeyBytesMax + 1, 'k');
    CHECK(bench.ask(pm, "message.send", args.to_value()).reply.error == "bad-request");
    // The human's messages have no run to know them by.
    args.key = "7";
    const std::string mine = id_of(bench.human("message.send", args.to_value()));
    CHECK(id_of(bench.human("message.send", args.to_value())) != mine);
}

TEST_CASE("a reply is found by what it answers, past the order, and taking it acks it") {
    Bench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    const std::string question =
        id_of(bench.human("message.send", letter({"coder", ""}, "how?").to_value()));
    CHECK(bench.human("message.receive", wait_args(true, question)).kind == Outcome::Kind::wait);
    CHECK_FALSE(received(bench.human("message.receive", wait_args(false, question))));
    REQUIRE(bench.ask(coder, "message.send", letter({"jordan", ""}, "first").to_value()).reply.ok);
    auto answer_args = letter({"jordan", ""}, "so");
    answer_args.message_class = wire::MessageClass::reply;
    answer_args.in_reply_to = question;
    REQUIRE(bench.ask(coder, "message.send", answer_args.to_value()).reply.ok);

    const auto reply = received(bench.human("message.receive", wait_args(true, question)));
    REQUIRE(reply);
    CHECK(reply->body == "so");
    CHECK(reply->in_reply_to == question);
    // A receiver whose connection broke meanwhile asks again.
    CHECK(received(bench.human("message.receive", wait_args(true, question)))->body == "so");
    const auto first = received(bench.human("message.receive", wait_args(true)));
    CHECK(first->body == "first");
    REQUIRE(bench.human("message.ack", ack_args(first->id)).reply.ok);
    CHECK(bench.human("message.receive", wait_args(true)).kind == Outcome::Kind::wait);
}

TEST_CASE("nobody waits for the reply to a message of somebody else") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const std::string id =
        id_of(bench.human("message.send", letter({"coder", ""}, "x").to_value()));
    for (const std::string& original : {id, std::string("m77"), std::string("junk")}) {
        CHECK(bench.ask(pm, "message.receive", wait_args(true, original)).reply.error ==
              "not-found");
    }
}

TEST_CASE("one run can't fill a receiver's queue, and acks make room again") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    REQUIRE(bench.store.begin());
    const auto send = [&](const Seat& to) {
        return bench.ask(pm, "message.send", letter(to, "x").to_value()).reply.error;
    };
    for (size_t i = 0; i < limits::kQueuedPerSenderMax; ++i) {
        REQUIRE(send(i % 2 == 0 ? Seat{"coder", ""} : Seat{"mute", ""}).empty());
    }
    CHECK(send({"coder", ""}) == "quota-exceeded");
    CHECK(send({"jordan", ""}) == "quota-exceeded");
    CHECK(bench.ask(coder, "message.send", letter({"coder", ""}, "x").to_value()).reply.ok);
    CHECK(bench.human("message.send", letter({"coder", ""}, "x").to_value()).reply.ok);
    REQUIRE(bench.ask(coder, "message.receive", kNothing).reply.ok);
    REQUIRE(bench.ask(coder, "message.ack", ack_args("m1")).reply.ok);
    CHECK(send({"coder", ""}).empty());
    bench.store.rollback();
}

TEST_CASE("a receiver's queue is bounded in bytes, for sessions") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    REQUIRE(bench.store.begin());
    const std::string body(limits::kMessageBodyBytesMax, 'x');
    for (size_t i = 0; i < limits::kQueuedBytesPerReceiverMax / body.size(); ++i) {
        REQUIRE(bench.human("message.send", letter({"coder", ""}, body).to_value()).reply.ok);
    }
    CHECK(bench.ask(pm, "message.send", letter({"coder", ""}, body).to_value()).reply.error ==
          "quota-exceeded");
    CHECK(bench.ask(pm, "message.send", letter({"mute", ""}, body).to_value()).reply.ok);
    CHECK(bench.human("message.send", letter({"coder", ""}, body).to_value()).reply.ok);
    bench.store.rollback();
}
