#include "wire/task_messages.h"

#include <algorithm>
#include <array>

#include "wire/limits.h"

namespace mosaic::wire {
namespace {

using json::Array;
using json::Object;
using json::Reader;
using json::Value;

constexpr std::array<std::string_view, 4> kStateText = {"open", "doing", "done", "dropped"};

void set_if(Value& object, std::string_view key, const std::string& text) {
    if (!text.empty()) {
        object.set(key, text);
    }
}

void set_state(Value& object, const std::optional<TaskState>& state) {
    if (state) {
        object.set("state", to_string(*state));
    }
}

template <class T>
Result<T> finish(Reader& r, T value) {
    MOSAIC_TRY(r.done());
    return value;
}

void check_length(Reader& r, std::string_view key, const std::string& text, size_t bytes_max) {
    if (text.size() > bytes_max) {
        r.problem(key, "expected at most " + std::to_string(bytes_max) + " bytes");
    }
}

}  // namespace

std::string_view to_string(TaskState state) {
    return kStateText[static_cast<size_t>(state)];
}

std::optional<TaskState> read_task_state(Reader& r, std::string_view key) {
    if (!r.has(key)) {
        return std::nullopt;
    }
    const std::string text = r.string(key);
    const auto hit = std::find(kStateText.begin(), kStateText.end(), text);
    if (hit == kStateText.end()) {
        r.problem(key, "expected open, doing, done or dropped");
        return std::nullopt;
    }
    return static_cast<TaskState>(hit - kStateText.begin());
}

std::string read_text(Reader& r, std::string_view key, size_t bytes_max) {
    std::string out = r.string(key);
    if (out.empty()) {
        r.problem(key, "expected a text that isn't empty");
    }
    check_length(r, key, out, bytes_max);
    return out;
}

std::string read_text_or_none(Reader& r, std::string_view key, size_t bytes_max) {
    std::string out = r.string_or(key, "");
    check_length(r, key, out, bytes_max);
    return out;
}

std::vector<std::string> read_options(Reader& r, std::string_view key) {
    std::vector<std::string> out = r.strings_or_none(key);
    if (out.size() > limits::kOptionsMax) {
        r.problem(key, "expected at most " + std::to_string(limits::kOptionsMax) + " options");
    }
    for (size_t i = 0; i < out.size(); ++i) {
        if (out[i].empty() || out[i].size() > limits::kTitleBytesMax) {
            r.problem_in(
                key,
                i,
                "expected a text of 1 to " + std::to_string(limits::kTitleBytesMax) + " bytes");
        }
    }
    return out;
}

Value TaskCreateArgs::to_value() const {
    Value out;
    out.set("title", title);
    set_if(out, "body", body);
    set_if(out, "to", to);
    return out;
}

Result<TaskCreateArgs> TaskCreateArgs::from(const Value& value) {
    Reader r(value, "args");
    TaskCreateArgs out;
    out.title = read_text(r, "title", limits::kTitleBytesMax);
    out.body = read_text_or_none(r, "body", limits::kTaskTextBytesMax);
    out.to = r.id_or("to", "");
    return finish(r, std::move(out));
}

Value TaskListArgs::to_value() const {
    Value out(Object{});
    set_if(out, "to", to);
    set_state(out, state);
    set_if(out, "after", after);
    return out;
}

Result<TaskListArgs> TaskListArgs::from(const Value& value) {
    Reader r(value, "args");
    TaskListArgs out;
    out.to = r.id_or("to", "");
    out.state = read_task_state(r, "state");
    out.after = r.string_or("after", "");
    return finish(r, std::move(out));
}

Value TaskUpdateArgs::to_value() const {
    Value out;
    out.set("id", id);
    set_state(out, state);
    set_if(out, "note", note);
    return out;
}

Result<TaskUpdateArgs> TaskUpdateArgs::from(const Value& value) {
    Reader r(value, "args");
    TaskUpdateArgs out;
    out.id = r.string("id");
    out.state = read_task_state(r, "state");
    out.note = read_text_or_none(r, "note", limits::kTaskTextBytesMax);
    if (!r.has("state") && out.note.empty()) {
        r.problem("state", "expected a new state, or a note");
    }
    return finish(r, std::move(out));
}

Value Task::to_value() const {
    Value out;
    out.set("id", id);
    out.set("role", role);
    out.set("state", to_string(state));
    out.set("title", title);
    set_if(out, "body", body);
    set_if(out, "note", note);
    out.set("by", by);
    out.set("at", at);
    set_if(out, "updatedBy", updated_by);
    set_if(out, "updatedAt", updated_at);
    return out;
}

Result<Task> Task::from(const Value& value, const std::string& pointer) {
    Reader r(value, "result", pointer);
    Task out;
    out.id = r.string("id");
    out.role = r.id("role");
    if (!r.has("state")) {
        r.problem("state", "expected a state");
    }
    out.state = read_task_state(r, "state").value_or(TaskState::open);
    out.title = r.string("title");
    out.body = r.string_or("body", "");
    out.note = r.string_or("note", "");
    out.by = r.string("by");
    out.at = r.string("at");
    out.updated_by = r.string_or("updatedBy", "");
    out.updated_at = r.string_or("updatedAt", "");
    return finish(r, std::move(out));
}

Value TaskListResult::to_value() const {
    Array list;
    for (const Task& task : tasks) {
        list.push_back(task.to_value());
    }
    Value out;
    out.set("tasks", std::move(list));
    set_if(out, "next", next);
    return out;
}

Result<TaskListResult> TaskListResult::from(const Value& value) {
    Reader r(value, "result");
    TaskListResult out;
    if (const Value* tasks = r.array("tasks")) {
        for (const Value& element : *tasks->array()) {
            auto task =
                Task::from(element, r.pointer_of("tasks") + "/" + std::to_string(out.tasks.size()));
            MOSAIC_TRY(task);
            out.tasks.push_back(std::move(*task));
        }
    }
    out.next = r.string_or("next", "");
    return finish(r, std::move(out));
}

Value DecisionRequestArgs::to_value() const {
    Value out;
    out.set("question", question);
    set_if(out, "context", context);
    if (!options.empty()) {
        Array list;
        for (const std::string& option : options) {
            list.emplace_back(option);
        }
        out.set("options", std::move(list));
    }
    return out;
}

Result<DecisionRequestArgs> DecisionRequestArgs::from(const Value& value) {
    Reader r(value, "args");
    DecisionRequestArgs out;
    out.question = read_text(r, "question", limits::kQuestionBytesMax);
    out.context = read_text_or_none(r, "context", limits::kTaskTextBytesMax);
    out.options = read_options(r, "options");
    return finish(r, std::move(out));
}

Value DecisionsArgs::to_value() const {
    Value out(Object{});
    set_if(out, "id", id);
    set_if(out, "after", after);
    return out;
}

Result<DecisionsArgs> DecisionsArgs::from(const Value& value) {
    Reader r(value, "args");
    DecisionsArgs out;
    out.id = r.string_or("id", "");
    out.after = r.string_or("after", "");
    return finish(r, std::move(out));
}

Value ShownDecision::to_value() const {
    Value out(Object{{"id", id}, {"instance", instance}});
    set_if(out, "thread", thread);
    out.set("verb", verb);
    out.set("state", state);
    out.set("at", at);
    if (args) {
        out.set("args", *args);
    }
    return out;
}

Result<ShownDecision> ShownDecision::from(const Value& value, const std::string& pointer) {
    Reader r(value, "result", pointer);
    ShownDecision out;
    out.id = r.string("id");
    out.instance = r.id("instance");
    out.thread = r.id_or("thread", "");
    out.verb = r.string("verb");
    out.state = r.string("state");
    out.at = r.string("at");
    if (const Value* args = r.any_or_none("args")) {
        out.args = *args;
    }
    return finish(r, std::move(out));
}

Value DecisionsResult::to_value() const {
    Array list;
    for (const ShownDecision& one : decisions) {
        list.push_back(one.to_value());
    }
    Value out(Object{{"decisions", std::move(list)}});
    set_if(out, "next", next);
    return out;
}

Result<DecisionsResult> DecisionsResult::from(const Value& value) {
    Reader r(value, "result");
    DecisionsResult out;
    if (const Value* list = r.array("decisions")) {
        for (const Value& element : *list->array()) {
            auto one = ShownDecision::from(
                element, r.pointer_of("decisions") + "/" + std::to_string(out.decisions.size()));
            MOSAIC_TRY(one);
            out.decisions.push_back(std::move(*one));
        }
    }
    out.next = r.string_or("next", "");
    return finish(r, std::move(out));
}

}  // namespace mosaic::wire
