#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "wire/json.h"

// The messages of tasks and of decisions that a session asks for; like those of messages.h. Texts
// are bounded here, for both sides: title and question aren't empty and within limits.h.

namespace mosaic::wire {

enum class TaskState {
    open,
    doing,
    done,
    dropped,
};

[[nodiscard]] std::string_view to_string(TaskState state);

// Reads member `key`, recording a problem when it is there and no state.
[[nodiscard]] std::optional<TaskState> read_task_state(json::Reader& r, std::string_view key);

// Reads a text of at most `bytes_max` bytes, recording a problem otherwise.
[[nodiscard]] std::string read_text(json::Reader& r, std::string_view key, size_t bytes_max);
[[nodiscard]] std::string read_text_or_none(json::Reader& r,
                                            std::string_view key,
                                            size_t bytes_max);

// At most limits::kOptionsMax of them, not empty.
[[nodiscard]] std::vector<std::string> read_options(json::Reader& r, std::string_view key);

// task.create. Reply {"id"}. The same task of the same run that isn't finished is not made twice:
// its id is the reply.
struct TaskCreateArgs {
    std::string title;
    std::string body;
    std::string to;  // a role, or the human; empty: the caller's own role

    bool operator==(const TaskCreateArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<TaskCreateArgs> from(const json::Value& value);
};

// task.list. Without `state`: those that are open or doing. Reply: a TaskListResult.
struct TaskListArgs {
    std::string to;  // only this role's; empty: all
    std::optional<TaskState> state;
    std::string after;  // only those behind this task; empty: from the first

    bool operator==(const TaskListArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<TaskListArgs> from(const json::Value& value);
};

// task.update, with a state, a note, or both. Reply: the Task as it is now.
struct TaskUpdateArgs {
    std::string id;
    std::optional<TaskState> state;
    std::string note;  // replaces the last one; empty: stays

    bool operator==(const TaskUpdateArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<TaskUpdateArgs> from(const json::Value& value);
};

struct Task {
    std::string id;
    std::string role;  // who is to do it
    TaskState state = TaskState::open;
    std::string title;
    std::string body;
    std::string note;
    std::string by;  // who made it
    std::string at;  // when, ISO 8601
    std::string updated_by;
    std::string updated_at;

    bool operator==(const Task&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<Task> from(const json::Value& value,
                                           const std::string& pointer = "");
};

struct TaskListResult {
    std::vector<Task> tasks;
    std::string next;  // the `after` of the next call when there are more; else empty

    bool operator==(const TaskListResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<TaskListResult> from(const json::Value& value);
};

// decision.request: the human is asked, and the answer comes as a NOTE. Reply {"id"}, the same for
// a question that is asked again before it was answered.
struct DecisionRequestArgs {
    std::string question;
    std::string context;
    std::vector<std::string> options;  // what the human may choose from; may be empty

    bool operator==(const DecisionRequestArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<DecisionRequestArgs> from(const json::Value& value);
};

// decisions: with an id that one, whatever its state, with the whole of what it is about; without,
// those that a human may still answer or take back, without their arguments. Reply: a
// DecisionsResult.
struct DecisionsArgs {
    std::string id;
    std::string after;  // only those behind this decision; empty: from the first

    bool operator==(const DecisionsArgs&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<DecisionsArgs> from(const json::Value& value);
};

struct ShownDecision {
    std::string id;
    std::string instance;
    std::string thread;
    std::string verb;
    std::string state;                // pending, allowed, refused or used
    std::string at;                   // when it was asked for, ISO 8601
    std::optional<json::Value> args;  // the call's, whole

    bool operator==(const ShownDecision&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<ShownDecision> from(const json::Value& value,
                                                    const std::string& pointer = "");
};

struct DecisionsResult {
    std::vector<ShownDecision> decisions;
    std::string next;  // the `after` of the next call when there are more; else empty

    bool operator==(const DecisionsResult&) const = default;
    [[nodiscard]] json::Value to_value() const;
    [[nodiscard]] static Result<DecisionsResult> from(const json::Value& value);
};

}  // namespace mosaic::wire
