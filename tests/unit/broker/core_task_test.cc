// Goal: tasks, and decisions that sessions ask for: who may what, what is kept, told and bounded.

#include "bench.h"
#include "wire/limits.h"
#include "wire/task_messages.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

namespace {

const std::vector<std::string> kWork = {
    "task.create", "task.list", "task.update", "decision.request", "message.send"};

// pm and coder may all of it, reviewer only after a decision, mute nothing.
class WorkBench : public Bench {
  public:
    WorkBench() {
        wire::BrokerConfig config = acme();
        config.roles = {{"pm", kWork, {}, {}},
                        {"coder", {}, kWork, {}},
                        {"reviewer", {}, {}, kWork},
                        {"mute", {}, {}, {}}};
        REQUIRE(host("config", config.to_value()).reply.ok);
    }

    std::string create(Session& by, const std::string& title, const std::string& to = "") {
        const wire::Reply reply =
            ask(by, "task.create", wire::TaskCreateArgs{title, "", to}.to_value()).reply;
        REQUIRE_MESSAGE(reply.ok, reply.message);
        return text_of(reply.result, "id");
    }

    wire::TaskListResult list(Session& by, const wire::TaskListArgs& args) {
        const wire::Reply reply = ask(by, "task.list", args.to_value()).reply;
        REQUIRE_MESSAGE(reply.ok, reply.message);
        auto result = wire::TaskListResult::from(reply.result);
        REQUIRE(result);
        return std::move(*result);
    }

    wire::Reply update(Session& by, const wire::TaskUpdateArgs& args) {
        return ask(by, "task.update", args.to_value()).reply;
    }

    std::vector<std::string> ids(Session& by, const wire::TaskListArgs& args) {
        std::vector<std::string> out;
        for (const wire::Task& task : list(by, args).tasks) {
            out.push_back(task.id);
        }
        return out;
    }

    int64_t open_tasks(Session& by) {
        const Outcome out =
            ask(by, "message.receive", wire::MessageReceiveArgs{false, ""}.to_value());
        const auto received = wire::MessageReceiveResult::from(out.reply.result);
        REQUIRE(received);
        return received->state.open_tasks;
    }
};

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("a task is made for a role, listed, and changed until it is done") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    auto coder = bench.claimed({"coder", "t"}, kCoderRun);
    CHECK(bench.create(pm, "build it", "coder") == "t1");
    CHECK(bench.create(pm, "plan it") == "t2");
    CHECK(bench.ids(coder, {}) == Ids{"t1", "t2"});
    CHECK(bench.ids(coder, {"coder", std::nullopt, ""}) == Ids{"t1"});
    CHECK(bench.ids(coder, {"", wire::TaskState::doing, ""}).empty());

    const wire::Reply doing = bench.update(coder, {"t1", wire::TaskState::doing, "half of it"});
    const auto task = wire::Task::from(doing.result);
    REQUIRE(task);
    CHECK(task->role == "coder");
    CHECK(task->title == "build it");
    CHECK(task->state == wire::TaskState::doing);
    CHECK(task->note == "half of it");
    CHECK(task->by == "pm");
    CHECK(task->updated_by == "coder/t");
    CHECK(task->at < task->updated_at);
    CHECK(bench.ids(pm, {"coder", std::nullopt, ""}) == Ids{"t1"});
    CHECK(bench.update(coder, {"t1", wire::TaskState::done, ""}).ok);
    CHECK(bench.ids(pm, {}) == Ids{"t2"});
    const auto done = bench.list(pm, {"", wire::TaskState::done, ""});
    REQUIRE(done.tasks.size() == 1);
    CHECK(done.tasks[0].note == "half of it");

    const auto created = bench.events("task.created");
    REQUIRE(created.size() == 2);
    CHECK(text_of(created[0], "id") == "t1");
    CHECK(text_of(created[0], "by") == "pm");
    CHECK(text_of(created[0], "role") == "coder");
    CHECK(text_of(created[0], "title") == "build it");
    const auto updated = bench.events("task.updated");
    REQUIRE(updated.size() == 2);
    CHECK(text_of(updated[0], "state") == "doing");
    CHECK(text_of(updated[0], "note") == "half of it");
    CHECK(text_of(updated[1], "state") == "done");
    CHECK(text_of(updated[1], "by") == "coder/t");
}

TEST_CASE("a role reads how many unfinished tasks are its own") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    CHECK(bench.open_tasks(coder) == 0);
    bench.create(pm, "one", "coder");
    bench.create(pm, "two", "coder");
    bench.create(pm, "three", "jordan");
    CHECK(bench.open_tasks(coder) == 2);
    CHECK(bench.open_tasks(pm) == 0);
    CHECK(bench.update(coder, {"t1", wire::TaskState::doing, ""}).ok);
    CHECK(bench.open_tasks(coder) == 2);
    CHECK(bench.update(coder, {"t1", wire::TaskState::dropped, ""}).ok);
    CHECK(bench.open_tasks(coder) == 1);
}

TEST_CASE("what is asked for twice is there once") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    CHECK(bench.create(pm, "same") == "t1");
    CHECK(bench.create(pm, "same") == "t1");
    CHECK(bench.create(pm, "same", "coder") == "t2");
    CHECK(bench.create(coder, "same") == "t3");
    CHECK(bench.update(pm, {"t1", wire::TaskState::done, ""}).ok);
    CHECK(bench.create(pm, "same") == "t4");
    CHECK(bench.update(pm, {"t1", wire::TaskState::done, ""}).ok);
    CHECK(bench.events("task.updated").size() == 1);

    const json::Value question = wire::DecisionRequestArgs{"now?", "", {}}.to_value();
    for (int i = 0; i < 2; ++i) {
        CHECK(text_of(bench.ask(pm, "decision.request", question).reply.result, "id") == "d1");
    }
    CHECK(bench.events("decision.requested").size() == 1);
    CHECK(bench.human("decide", wire::DecideArgs{"d1", true, ""}.to_value()).reply.ok);
    CHECK(text_of(bench.ask(pm, "decision.request", question).reply.result, "id") == "d2");
}

TEST_CASE("a long list comes in pages, each task once") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const std::string body(limits::kTaskTextBytesMax, '\x01');
    constexpr int kTasks = 250;
    for (int i = 0; i < kTasks; ++i) {
        const wire::TaskCreateArgs args{"task " + std::to_string(i), i < 20 ? body : "", ""};
        REQUIRE(bench.ask(pm, "task.create", args.to_value()).reply.ok);
    }
    int seen = 0;
    int pages = 0;
    wire::TaskListArgs args;
    do {
        const auto page = bench.list(pm, args);
        REQUIRE_FALSE(page.tasks.empty());
        CHECK(page.tasks.size() <= limits::kTasksPerReplyMax);
        CHECK(json::dump(page.to_value()).size() < limits::kFrameBytesMax / 2);
        for (const wire::Task& task : page.tasks) {
            CHECK(task.id == "t" + std::to_string(++seen));
        }
        args.after = page.next;
        ++pages;
    } while (!args.after.empty());
    CHECK(seen == kTasks);
    CHECK(pages > 4);
}

TEST_CASE("what can't be is refused with what would be right") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const auto error = [&](const std::string& verb, json::Value args) {
        const wire::Reply reply = bench.ask(pm, verb, std::move(args)).reply;
        CHECK_FALSE(reply.ok);
        return reply.error + ": " + reply.message;
    };
    CHECK(
        error("task.create", json::Object{{"title", ""}}).starts_with("bad-request: args: /title"));
    CHECK(error("task.create", json::Object{{"title", "x"}, {"role", "pm"}})
              .starts_with("bad-request: args: /role"));
    CHECK(error("task.create", json::Object{{"title", "x"}, {"to", "nobody"}}) ==
          "not-found: no role nobody");
    for (const char* id : {"t1", "t0", "1", "", "m1", "t99999999999999999999"}) {
        CHECK(error("task.update", json::Object{{"id", id}, {"state", "done"}})
                  .starts_with("not-found: no task "));
    }
    CHECK(error("task.update", json::Object{{"id", "t1"}}).starts_with("bad-request"));
    CHECK(error("task.list", json::Object{{"after", "x"}}).starts_with("not-found"));
    CHECK(error("task.list", json::Object{{"state", "late"}})
              .find("expected open, doing, done or dropped") != std::string::npos);
    CHECK(error("decision.request", json::Object{{"question", ""}}).starts_with("bad-request"));
    CHECK(bench.events("task.created").empty());
    CHECK(bench.events("decision.requested").empty());
}

TEST_CASE("authority decides: absent is refused, gated asks the human first") {
    WorkBench bench;
    auto mute = bench.claimed({"mute", ""}, kMuteRun);
    for (const auto& [verb, args] : std::vector<std::pair<std::string, json::Value>>{
             {"task.create", json::Object{{"title", "x"}}},
             {"task.list", json::Object{}},
             {"decision.request", json::Object{{"question", "may I?"}}}}) {
        const wire::Reply reply = bench.ask(mute, verb, args).reply;
        CHECK(reply.error == "not-authorized");
        CHECK(reply.message == verb + " isn't in the authority of mute");
    }
    auto reviewer = bench.claimed({"reviewer", ""}, kReviewerRun);
    const json::Value task = json::Object{{"title", "check it"}, {"to", "coder"}};
    CHECK(bench.ask(reviewer, "task.create", task).reply.decision == "d1");
    CHECK(text_of(bench.events("decision.requested")[0], "what") == "task for coder: check it");
    CHECK(bench.human("decide", wire::DecideArgs{"d1", true, "why not"}.to_value()).reply.error ==
          "bad-request");
    CHECK(bench.human("decide", wire::DecideArgs{"d1", true, ""}.to_value()).reply.ok);
    CHECK(text_of(bench.ask(reviewer, "task.create", task).reply.result, "id") == "t1");
    CHECK(bench.update(reviewer, {"t1", wire::TaskState::done, ""}).decision == "d2");
    // A question is itself what a gate would ask.
    CHECK(bench.ask(reviewer, "decision.request", json::Object{{"question", "?"}}).reply.ok);
    // Nobody decides about what isn't well-formed.
    CHECK(bench.ask(reviewer, "task.list", json::Object{{"x", 1}}).reply.error == "bad-request");
    // Only who holds the role.
    auto bound = bench.bound({"coder", ""}, kCoderRun);
    CHECK(bench.ask(bound, "task.list", kNothing).reply.error == "not-authorized");
}

TEST_CASE("the answer to a question comes to who asked, once") {
    WorkBench bench;
    auto coder = bench.claimed({"coder", "t"}, kCoderRun);
    const wire::DecisionRequestArgs question{"which one?", "both work", {"this", "that"}};
    CHECK(bench.ask(coder, "decision.request", question.to_value()).reply.ok);
    const auto requested = bench.events("decision.requested");
    REQUIRE(requested.size() == 1);
    CHECK(text_of(requested[0], "by") == "coder/t");
    CHECK(text_of(requested[0], "what") == "which one?");
    CHECK(text_of(requested[0], "context") == "both work");
    CHECK(json::dump(*requested[0].find("options")) == R"(["this","that"])");

    const Outcome decided = bench.human("decide", wire::DecideArgs{"d1", true, "this"}.to_value());
    CHECK(decided.reply.ok);
    CHECK(decided.mailboxes == std::vector<Seat>{{"coder", "t"}});
    const Outcome received =
        bench.ask(coder, "message.receive", wire::MessageReceiveArgs{false, ""}.to_value());
    const auto note = wire::MessageReceiveResult::from(received.reply.result);
    REQUIRE(note);
    REQUIRE(note->message);
    CHECK(note->message->from == "jordan");
    CHECK(note->message->message_class == wire::MessageClass::note);
    CHECK(note->message->body == "Decision d1: allowed.\nthis\n\nThe question was: which one?\n");
    CHECK(bench.human("decide", wire::DecideArgs{"d1", true, ""}.to_value()).reply.ok);
    CHECK(bench.human("decide", wire::DecideArgs{"d1", false, ""}.to_value()).reply.error ==
          "refused");
    CHECK(bench.events("message.sent").size() == 1);
    CHECK(bench.events("decision.made").size() == 1);
}

TEST_CASE("an answer for a role that is no more is kept as an event alone") {
    WorkBench bench;
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    CHECK(bench.ask(coder, "decision.request", json::Object{{"question", "?"}}).reply.ok);
    wire::BrokerConfig config = acme();
    config.roles = {{"pm", kWork, {}, {}}};
    REQUIRE(bench.host("config", config.to_value()).reply.ok);
    const Outcome decided = bench.human("decide", wire::DecideArgs{"d1", false, ""}.to_value());
    CHECK(decided.reply.ok);
    CHECK(decided.mailboxes.empty());
    CHECK(bench.events("decision.made").size() == 1);
}

TEST_CASE("what one run can make and one seat can ask is bounded") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    for (size_t i = 0; i < limits::kTasksPerRunMax; ++i) {
        bench.create(pm, std::to_string(i));
    }
    CHECK(bench.ask(pm, "task.create", json::Object{{"title", "more"}}).reply.error ==
          "quota-exceeded");
    // Done or not: it is what the run has made.
    CHECK(bench.update(pm, {"t1", wire::TaskState::done, ""}).ok);
    CHECK(bench.ask(pm, "task.create", json::Object{{"title", "more"}}).reply.error ==
          "quota-exceeded");
    auto coder = bench.claimed({"coder", ""}, kCoderRun);
    bench.create(coder, "another's");
    for (size_t i = 0; i <= limits::kDecisionsPendingMax; ++i) {
        const json::Value question = json::Object{{"question", std::to_string(i)}};
        CHECK(bench.ask(coder, "decision.request", question).reply.error ==
              (i < limits::kDecisionsPendingMax ? "" : "quota-exceeded"));
    }
}

TEST_CASE("listing the tasks of nobody says so and those of a former role are there") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const std::string id = bench.create(pm, "x", "coder");
    const json::Value none = json::Object{{"to", "nobody"}};
    CHECK(bench.human("task.list", none).reply.error == "not-found");
    CHECK(bench.human("task.list", none).reply.message == "no role nobody");
    CHECK(bench.ask(pm, "task.list", none).reply.error == "not-found");
    CHECK(bench.human("task.list", json::Object{{"to", "jordan"}}).reply.ok);
    wire::BrokerConfig without = acme();
    without.roles = {{"pm", kWork, {}, {}}};
    REQUIRE(bench.host("config", without.to_value()).reply.ok);
    const json::Value former = json::Object{{"to", "coder"}};
    const auto kept = wire::TaskListResult::from(bench.human("task.list", former).reply.result);
    REQUIRE(kept);
    REQUIRE(kept->tasks.size() == 1);
    CHECK(kept->tasks[0].id == id);
}

TEST_CASE("the human lists tasks and no session has the human's part") {
    WorkBench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    bench.create(pm, "x", "coder");
    const auto all = wire::TaskListResult::from(bench.human("task.list", kNothing).reply.result);
    REQUIRE(all);
    CHECK(all->tasks.size() == 1);
    CHECK(bench.human("task.list", json::Object{{"to", "pm"}})
              .reply.result.find("tasks")
              ->array()
              ->empty());
    CHECK(bench.ask(pm, "decide", wire::DecideArgs{"d1", true, ""}.to_value()).reply.error ==
          "not-human");
    for (const char* verb : {"task.create", "task.update", "decision.request"}) {
        CHECK(bench.human(verb, kNothing).reply.error == "unknown-verb");
    }
}
