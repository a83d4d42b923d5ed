#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "broker/database.h"
#include "wire/messages.h"
#include "wire/task_messages.h"

// What the broker remembers, in one SQLite file (WAL, synchronous=FULL): runs, who holds which
// seat, messages, events, launch switches, decisions, tasks. It stores and finds; whether something
// may happen is decided in core.h.
//
// Everything between begin() and commit() becomes durable at once or not at all. Times are
// milliseconds since the epoch.

namespace mosaic::broker {

// One run, from bindLaunch (or from an endLaunch of a run that was never bound) on, for ever.
struct Run {
    Seat seat;
    std::string run;
    std::string harness;
    std::string provider;
    std::string model;
    std::string launched_by;
    std::string transcript;
    wire::ProcessIdentity process;
    std::string cap_hash;  // empty: no living capability
    std::optional<int64_t> bound_at;
    std::optional<int64_t> claimed_at;
    std::optional<int64_t> released_at;
    std::optional<int64_t> ended_at;
    wire::EndLaunchResult end;  // when ended; `first` means nothing here

    [[nodiscard]] bool live() const { return bound_at.has_value() && !ended_at.has_value(); }

    // Holds its seat: it has claimed and neither released nor ended.
    [[nodiscard]] bool holds() const { return live() && claimed_at && !released_at; }
};

struct StoredMessage {
    int64_t number = 0;  // "m<number>"
    Seat to;
    Seat from;
    std::string from_run;  // empty: the human
    wire::MessageClass message_class = wire::MessageClass::request;
    std::string body;
    int64_t in_reply_to = 0;  // 0: none
    int64_t at = 0;
    bool acked = false;
    std::string key;  // the sender's word for it; empty: none
};

struct Queued {
    int64_t messages = 0;
    int64_t bytes = 0;
};

struct Switch {
    bool allowed = true;
    int64_t at = 0;
};

enum class DecisionState {
    pending,
    allowed,
    refused,
    used,  // was allowed, and the call has passed
};

struct Decision {
    int64_t number = 0;  // "d<number>"
    Seat seat;           // who wants to
    std::string verb;
    std::string args;  // the call's arguments, encoded
    DecisionState state = DecisionState::pending;
    int64_t at = 0;  // when it was asked for
};

struct StoredTask {
    int64_t number = 0;  // "t<number>"
    std::string role;    // who is to do it
    wire::TaskState state = wire::TaskState::open;
    std::string title;
    std::string body;
    std::string note;
    std::string by;  // the seat that made it
    std::string by_run;
    int64_t at = 0;
    std::string updated_by;
    std::optional<int64_t> updated_at;
};

struct TaskFilter {
    std::string role;                      // empty: all
    std::optional<wire::TaskState> state;  // none: open or doing
    int64_t after = 0;
    int64_t max = 0;
};

// The pid and start time of a runner, as the kernel tells them at accept.
struct Runner {
    int64_t pid = 0;
    std::string start_time;
};

class Store {
  public:
    // Opens the file, or makes it with mode 0600. Code::corrupt, Code::unsafe or Code::invalid: the
    // file is damaged, somebody else's, foreign or of a newer version; the text has path, cause and
    // remedy, and the file is as it was. Other codes: a system call failed. Call once.
    [[nodiscard]] Result<void> open(const std::string& path);

    [[nodiscard]] Result<void> begin();
    [[nodiscard]] Result<void> commit();
    void rollback();

    // Changes exactly when something was written.
    [[nodiscard]] int64_t rows_written() const { return db_.rows_written(); }

    // ---- runs and seats ----
    [[nodiscard]] Result<std::optional<Run>> find_run(const std::string& run);
    [[nodiscard]] Result<std::optional<Run>> live_run_of(const Seat& seat);
    [[nodiscard]] Result<std::optional<Run>> live_run_by(const Runner& runner);
    [[nodiscard]] Result<std::vector<Run>> live_runs();
    [[nodiscard]] Result<int64_t> count_live_runs();
    [[nodiscard]] Result<void> add_run(const Run& run);
    [[nodiscard]] Result<void> set_capability(const std::string& run, const std::string& hash);
    // The run that holds the seat's role.
    [[nodiscard]] Result<std::optional<std::string>> holder(const Seat& seat);
    [[nodiscard]] Result<void> claim(const Run& run, int64_t at);
    [[nodiscard]] Result<void> release(const Run& run, int64_t at);
    // Kills the capability, too. Doesn't release.
    [[nodiscard]] Result<void> end(const std::string& run,
                                   const wire::EndLaunchResult& how,
                                   int64_t at);

    // ---- messages ----
    // Returns the number.
    [[nodiscard]] Result<int64_t> add_message(const StoredMessage& message);
    // The number of the very same reply (run, class, receiver, message it answers, body) when it
    // was stored before.
    [[nodiscard]] Result<std::optional<int64_t>> same_reply(const StoredMessage& message);
    // The message that this run sent with this key.
    [[nodiscard]] Result<std::optional<StoredMessage>> sent_with(const std::string& run,
                                                                 const std::string& key);
    [[nodiscard]] Result<std::optional<StoredMessage>> find_message(int64_t number);
    // The oldest that `to` hasn't acked.
    [[nodiscard]] Result<std::optional<StoredMessage>> front(const Seat& to);
    // The reply to a message: the oldest that isn't acked, else one that was (so that a receiver
    // whose connection broke after the ack can ask again).
    [[nodiscard]] Result<std::optional<StoredMessage>> reply_to(const Seat& to, int64_t number);
    [[nodiscard]] Result<void> ack(int64_t number, int64_t at);
    [[nodiscard]] Result<Queued> queued_for(const Seat& to);
    [[nodiscard]] Result<Queued> queued_by(const std::string& run);
    [[nodiscard]] Result<Queued> queued();

    // ---- events ----
    // Appends {"seq","at","type"} and the members of `fields`.
    [[nodiscard]] Result<void> add_event(const std::string& type,
                                         const json::Value& fields,
                                         int64_t at);
    // At most `max` events after `since`, as the JSON text of each, in order.
    [[nodiscard]] Result<std::vector<std::string>> events(int64_t since, int64_t max);
    // The number of the newest, 0 when there is none.
    [[nodiscard]] Result<int64_t> last_event();

    // ---- switches and decisions ----
    // The last switch of launches; nothing when they were never switched.
    [[nodiscard]] Result<std::optional<Switch>> launches_switch();
    [[nodiscard]] Result<void> add_switch(const Switch& to, const std::string& by);
    // The decision of exactly this call that isn't used up.
    [[nodiscard]] Result<std::optional<Decision>> open_decision(const Seat& seat,
                                                                const std::string& verb,
                                                                const std::string& args);
    // One of the same seat, verb and arguments that the human hasn't answered.
    [[nodiscard]] Result<std::optional<Decision>> pending_decision(const Decision& like);
    [[nodiscard]] Result<std::optional<Decision>> find_decision(int64_t number);
    // At most `max` that are pending or allowed and lie behind `after`, in order.
    [[nodiscard]] Result<std::vector<Decision>> answerable_decisions(int64_t after, int64_t max);
    [[nodiscard]] Result<int64_t> count_pending_decisions(const Seat& seat);
    [[nodiscard]] Result<int64_t> add_decision(const Decision& decision, int64_t at);
    [[nodiscard]] Result<void> set_decision(int64_t number, DecisionState state, int64_t at);

    // ---- tasks ----
    // Returns the number.
    [[nodiscard]] Result<int64_t> add_task(const StoredTask& task);
    [[nodiscard]] Result<std::optional<StoredTask>> find_task(int64_t number);
    // State, note, and who changed them when.
    [[nodiscard]] Result<void> update_task(const StoredTask& task);
    // In the order of their numbers.
    [[nodiscard]] Result<std::vector<StoredTask>> tasks(const TaskFilter& filter);
    // The number of one of the same run, role, title and body that is open or doing.
    [[nodiscard]] Result<std::optional<int64_t>> unfinished_task_like(const StoredTask& task);
    [[nodiscard]] Result<int64_t> count_tasks_by(const std::string& run);
    [[nodiscard]] Result<int64_t> count_unfinished_tasks();
    [[nodiscard]] Result<int64_t> count_unfinished_tasks_of(const std::string& role);

  private:
    [[nodiscard]] Result<void> check(const std::string& path, bool fresh);
    // From `version` to the newest, all steps or none.
    [[nodiscard]] Result<void> step_up(int64_t version);
    template <class... Args>
    [[nodiscard]] Result<std::vector<Run>> runs(std::string_view sql, const Args&... args);
    template <class... Args>
    [[nodiscard]] Result<std::optional<StoredMessage>> message(std::string_view sql,
                                                               const Args&... args);
    template <class... Args>
    [[nodiscard]] Result<std::optional<Decision>> decision(std::string_view sql,
                                                           const Args&... args);
    template <class... Args>
    [[nodiscard]] Result<int64_t> number(std::string_view sql, const Args&... args);

    Database db_;
};

}  // namespace mosaic::broker
