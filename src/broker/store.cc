#include "broker/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/instant.h"
#include "base/unique_fd.h"
#include "broker/schema.h"

namespace mosaic::broker {
namespace {

constexpr const char* kStartAfresh =
    "; restore it from a backup, or move it away with its -wal and -shm files and start again: the "
    "broker then begins with an empty store";

tl::unexpected<Error> refuse_file(Code code, const std::string& path, const std::string& cause) {
    return fail(code, path + ": " + cause + kStartAfresh);
}

// The file exists afterwards, is regular, ours, and mode 0600. Returns whether it was made or
// empty.
Result<bool> prepare_file(const std::string& path) {
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const UniqueFd file(::open(path.c_str(), flags, 0600));
    if (!file.valid()) {
        return fail_sys(errno, path);
    }

    struct stat facts {};

    if (fstat(file.get(), &facts) != 0) {
        return fail_sys(errno, path);
    }
    if (!S_ISREG(facts.st_mode)) {
        return refuse_file(Code::unsafe, path, "not a regular file");
    }
    if (facts.st_uid != geteuid()) {
        return refuse_file(Code::unsafe,
                           path,
                           "belongs to user " + std::to_string(facts.st_uid) + ", not to user " +
                               std::to_string(geteuid()));
    }
    // The umask can take bits away, an operator's copy can have more.
    if ((facts.st_mode & 07777) != 0600 && fchmod(file.get(), 0600) != 0) {
        return fail_sys(errno, path);
    }
    return facts.st_size == 0;
}

// A new file's name is durable only with its directory.
Result<void> sync_directory_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid() || fsync(fd.get()) != 0) {
        return fail_sys(errno, directory);
    }
    return {};
}

Run read_run(const Row& row) {
    Run out;
    out.run = row.text(0);
    out.seat = {row.text(1), row.text(2)};
    out.harness = row.text(3);
    out.provider = row.text(4);
    out.model = row.text(5);
    out.launched_by = row.text(6);
    out.transcript = row.text(7);
    out.process = {row.integer(8), row.text(9), row.integer(10), row.text(11)};
    out.cap_hash = row.text(12);
    out.bound_at = row.integer_or_null(13);
    out.claimed_at = row.integer_or_null(14);
    out.released_at = row.integer_or_null(15);
    out.ended_at = row.integer_or_null(16);
    out.end.reason = end_reason_from(row.text(17)).value_or(EndReason::failed);
    out.end.exit_code = row.integer_or_null(18);
    out.end.signal = row.text(19);
    out.end.detail = row.text(20);
    return out;
}

StoredMessage read_message(const Row& row) {
    StoredMessage out;
    out.number = row.integer(0);
    out.to = {row.text(1), row.text(2)};
    out.from = {row.text(3), row.text(4)};
    out.from_run = row.text(5);
    out.message_class = static_cast<wire::MessageClass>(row.integer(6));
    out.body = row.text(7);
    out.in_reply_to = row.integer(9);
    out.at = row.integer(10);
    out.acked = !row.is_null(11);
    out.key = row.text(12);
    return out;
}

Decision read_decision(const Row& row) {
    Decision out;
    out.number = row.integer(0);
    out.seat = {row.text(1), row.text(2)};
    out.verb = row.text(3);
    out.args = row.text(4);
    out.state = static_cast<DecisionState>(row.integer(5));
    out.at = row.integer(6);
    return out;
}

StoredTask read_task(const Row& row) {
    StoredTask out;
    out.number = row.integer(0);
    out.role = row.text(1);
    out.state = static_cast<wire::TaskState>(row.integer(2));
    out.title = row.text(3);
    out.body = row.text(4);
    out.note = row.text(5);
    out.by = row.text(6);
    out.by_run = row.text(7);
    out.at = row.integer(8);
    out.updated_by = row.text(9);
    out.updated_at = row.integer_or_null(10);
    return out;
}

}  // namespace

Result<void> Store::open(const std::string& path) {
    MOSAIC_TRY_ASSIGN(const bool fresh, prepare_file(path));
    auto checked = check(path, fresh);
    if (!checked && checked.error().code == Code::corrupt) {
        return refuse_file(Code::corrupt, path, "damaged (" + checked.error().text + ")");
    }
    return checked;
}

Result<void> Store::check(const std::string& path, bool fresh) {
    MOSAIC_TRY(db_.open(path));
    // An interrupted first start leaves a file that SQLite rolls back to nothing.
    MOSAIC_TRY_ASSIGN(const int64_t tables, number("SELECT count(*) FROM sqlite_schema"));
    MOSAIC_TRY_ASSIGN(const int64_t version, number("PRAGMA user_version"));
    MOSAIC_TRY_ASSIGN(const int64_t application, number("PRAGMA application_id"));
    const bool empty = fresh || (tables == 0 && version == 0 && application == 0);
    if (!empty && application != kApplicationId) {
        return refuse_file(Code::invalid, path, "an SQLite file of another program");
    }
    if (!empty && version < 1) {
        return fail(Code::corrupt, "it has no version");
    }
    if (version > kSchemaVersion) {
        return fail(Code::invalid,
                    path + ": store version " + std::to_string(version) +
                        " was written by a newer mosaic, this one reads up to version " +
                        std::to_string(kSchemaVersion) + "; install the newer one again");
    }
    std::string verdict;
    MOSAIC_TRY(db_.each("PRAGMA quick_check(1)", [&](const Row& row) { verdict = row.text(0); }));
    if (verdict != "ok") {
        return fail(Code::corrupt, verdict);
    }
    MOSAIC_TRY(
        db_.script("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                   "PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY;"));
    MOSAIC_TRY(step_up(version));
    return empty ? sync_directory_of(path) : Result<void>();
}

Result<void> Store::step_up(int64_t version) {
    if (version == kSchemaVersion) {
        return {};
    }
    std::string script = "BEGIN IMMEDIATE;";
    for (auto step = static_cast<size_t>(version); step < kSteps.size(); ++step) {
        script += kSteps[step];
    }
    return db_.script(script + "PRAGMA application_id=" + std::to_string(kApplicationId) +
                      "; PRAGMA user_version=" + std::to_string(kSchemaVersion) + "; COMMIT;");
}

Result<void> Store::begin() {
    return db_.execute("BEGIN");
}

Result<void> Store::commit() {
    return db_.execute("COMMIT");
}

void Store::rollback() {
    if (db_.in_transaction()) {
        ignore(db_.execute("ROLLBACK"),
               "SQLite rolls back what it can't commit, at the latest "
               "when the file is opened again");
    }
}

template <class... Args>
Result<std::vector<Run>> Store::runs(std::string_view sql, const Args&... args) {
    std::vector<Run> out;
    MOSAIC_TRY(db_.each(
        sql, [&](const Row& row) { out.push_back(read_run(row)); }, args...));
    return out;
}

template <class... Args>
Result<std::optional<StoredMessage>> Store::message(std::string_view sql, const Args&... args) {
    std::optional<StoredMessage> out;
    MOSAIC_TRY(db_.each(
        sql, [&](const Row& row) { out = read_message(row); }, args...));
    return out;
}

template <class... Args>
Result<std::optional<Decision>> Store::decision(std::string_view sql, const Args&... args) {
    std::optional<Decision> out;
    MOSAIC_TRY(db_.each(
        sql, [&](const Row& row) { out = read_decision(row); }, args...));
    return out;
}

template <class... Args>
Result<int64_t> Store::number(std::string_view sql, const Args&... args) {
    int64_t out = 0;
    MOSAIC_TRY(db_.each(
        sql, [&](const Row& row) { out = row.integer(0); }, args...));
    return out;
}

namespace {

Result<std::optional<Run>> first(Result<std::vector<Run>> runs) {
    MOSAIC_TRY(runs);
    if (runs->empty()) {
        return std::optional<Run>();
    }
    return std::optional<Run>(std::move(runs->front()));
}

}  // namespace

Result<std::optional<Run>> Store::find_run(const std::string& run) {
    return first(runs("SELECT * FROM runs WHERE run=?", run));
}

Result<std::optional<Run>> Store::live_run_of(const Seat& seat) {
    return first(runs("SELECT * FROM runs WHERE instance=? AND thread=? AND ended_at IS NULL",
                      seat.instance,
                      seat.thread));
}

Result<std::optional<Run>> Store::live_run_by(const Runner& runner) {
    return first(
        runs("SELECT * FROM runs WHERE runner_pid=? AND runner_start_time=? AND ended_at IS NULL",
             runner.pid,
             runner.start_time));
}

Result<std::vector<Run>> Store::live_runs() {
    return runs("SELECT * FROM runs WHERE ended_at IS NULL ORDER BY instance, thread");
}

Result<int64_t> Store::count_live_runs() {
    return number("SELECT count(*) FROM runs WHERE ended_at IS NULL");
}

Result<void> Store::add_run(const Run& run) {
    return db_.execute(
        "INSERT INTO runs (run, instance, thread, harness, provider, model, launched_by,"
        " transcript, pid, start_time, runner_pid, runner_start_time, cap_hash, bound_at, ended_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        run.run,
        run.seat.instance,
        run.seat.thread,
        run.harness,
        run.provider,
        run.model,
        run.launched_by,
        run.transcript,
        run.process.pid,
        run.process.start_time,
        run.process.runner_pid,
        run.process.runner_start_time,
        run.cap_hash,
        run.bound_at,
        run.ended_at);
}

Result<void> Store::set_capability(const std::string& run, const std::string& hash) {
    return db_.execute("UPDATE runs SET cap_hash=? WHERE run=?", hash, run);
}

Result<std::optional<std::string>> Store::holder(const Seat& seat) {
    std::optional<std::string> out;
    MOSAIC_TRY(db_.each(
        "SELECT run FROM seats WHERE instance=? AND thread=?",
        [&](const Row& row) { out = row.text(0); },
        seat.instance,
        seat.thread));
    return out;
}

Result<void> Store::claim(const Run& run, int64_t at) {
    MOSAIC_TRY(db_.execute("INSERT INTO seats (instance, thread, run) VALUES (?, ?, ?)",
                           run.seat.instance,
                           run.seat.thread,
                           run.run));
    return db_.execute("UPDATE runs SET claimed_at=? WHERE run=?", at, run.run);
}

Result<void> Store::release(const Run& run, int64_t at) {
    MOSAIC_TRY(db_.execute("DELETE FROM seats WHERE instance=? AND thread=? AND run=?",
                           run.seat.instance,
                           run.seat.thread,
                           run.run));
    return db_.execute("UPDATE runs SET released_at=? WHERE run=?", at, run.run);
}

Result<void> Store::end(const std::string& run, const wire::EndLaunchResult& how, int64_t at) {
    return db_.execute(
        "UPDATE runs SET ended_at=?, end_reason=?, exit_code=?, signal=?, detail=?, cap_hash=''"
        " WHERE run=?",
        at,
        to_string(how.reason),
        how.exit_code,
        how.signal,
        how.detail,
        run);
}

Result<int64_t> Store::add_message(const StoredMessage& message) {
    MOSAIC_TRY(db_.execute(
        "INSERT INTO messages (to_instance, to_thread, from_instance, from_thread, from_run, class,"
        " body, bytes, in_reply_to, at, send_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        message.to.instance,
        message.to.thread,
        message.from.instance,
        message.from.thread,
        message.from_run,
        static_cast<int64_t>(message.message_class),
        message.body,
        static_cast<int64_t>(message.body.size()),
        message.in_reply_to,
        message.at,
        message.key));
    return db_.last_insert();
}

Result<std::optional<int64_t>> Store::same_reply(const StoredMessage& message) {
    std::optional<int64_t> found;
    if (message.in_reply_to == 0 || message.from_run.empty()) {
        return found;
    }
    MOSAIC_TRY(db_.each(
        "SELECT n FROM messages WHERE in_reply_to=? AND in_reply_to<>0 AND from_run=? AND class=?"
        " AND to_instance=? AND to_thread=? AND body=? ORDER BY n LIMIT 1",
        [&](const Row& row) { found = row.integer(0); },
        message.in_reply_to,
        message.from_run,
        static_cast<int64_t>(message.message_class),
        message.to.instance,
        message.to.thread,
        message.body));
    return found;
}

Result<std::optional<StoredMessage>> Store::sent_with(const std::string& run,
                                                      const std::string& key) {
    return message(
        "SELECT * FROM messages WHERE from_run=? AND send_key=? AND send_key<>''", run, key);
}

Result<std::optional<StoredMessage>> Store::find_message(int64_t number) {
    return message("SELECT * FROM messages WHERE n=?", number);
}

Result<std::optional<StoredMessage>> Store::front(const Seat& to) {
    return message(
        "SELECT * FROM messages WHERE to_instance=? AND to_thread=? AND acked_at IS NULL"
        " ORDER BY n LIMIT 1",
        to.instance,
        to.thread);
}

Result<std::optional<StoredMessage>> Store::reply_to(const Seat& to, int64_t number) {
    return message(
        "SELECT * FROM messages WHERE in_reply_to=? AND in_reply_to<>0 AND to_instance=?"
        " AND to_thread=? ORDER BY acked_at IS NOT NULL, n LIMIT 1",
        number,
        to.instance,
        to.thread);
}

Result<void> Store::ack(int64_t number, int64_t at) {
    return db_.execute("UPDATE messages SET acked_at=? WHERE n=?", at, number);
}

Result<Queued> Store::queued_for(const Seat& to) {
    Queued out;
    MOSAIC_TRY(db_.each(
        "SELECT count(*), sum(bytes) FROM messages"
        " WHERE to_instance=? AND to_thread=? AND acked_at IS NULL",
        [&](const Row& row) {
            out = {row.integer(0), row.integer(1)};
        },
        to.instance,
        to.thread));
    return out;
}

Result<Queued> Store::queued_by(const std::string& run) {
    Queued out;
    MOSAIC_TRY(db_.each(
        "SELECT count(*), sum(bytes) FROM messages WHERE from_run=? AND acked_at IS NULL",
        [&](const Row& row) {
            out = {row.integer(0), row.integer(1)};
        },
        run));
    return out;
}

Result<Queued> Store::queued() {
    Queued out;
    MOSAIC_TRY(db_.each("SELECT count(*), sum(bytes) FROM messages WHERE acked_at IS NULL",
                        [&](const Row& row) {
                            out = {row.integer(0), row.integer(1)};
                        }));
    return out;
}

Result<void> Store::add_event(const std::string& type, const json::Value& fields, int64_t at) {
    const json::Object* members = fields.object();
    MOSAIC_ASSERT(members != nullptr);
    MOSAIC_TRY_ASSIGN(const int64_t last, last_event());
    json::Value event;
    event.set("seq", last + 1);
    event.set("at", iso8601(at));
    event.set("type", type);
    for (const json::Member& field : *members) {
        event.set(field.first, field.second);
    }
    return db_.execute("INSERT INTO events (seq, at, type, event) VALUES (?, ?, ?, ?)",
                       last + 1,
                       at,
                       type,
                       json::dump(event));
}

Result<std::vector<std::string>> Store::events(int64_t since, int64_t max) {
    std::vector<std::string> out;
    MOSAIC_TRY(db_.each(
        "SELECT event FROM events WHERE seq>? ORDER BY seq LIMIT ?",
        [&](const Row& row) { out.push_back(row.text(0)); },
        since,
        max));
    return out;
}

Result<int64_t> Store::last_event() {
    return number("SELECT max(seq) FROM events");
}

Result<std::optional<Switch>> Store::launches_switch() {
    std::optional<Switch> out;
    MOSAIC_TRY(
        db_.each("SELECT allowed, at FROM switches ORDER BY n DESC LIMIT 1", [&](const Row& row) {
            out = Switch{row.integer(0) != 0, row.integer(1)};
        }));
    return out;
}

Result<void> Store::add_switch(const Switch& to, const std::string& by) {
    return db_.execute("INSERT INTO switches (allowed, by, at) VALUES (?, ?, ?)",
                       int64_t{to.allowed ? 1 : 0},
                       by,
                       to.at);
}

Result<std::optional<Decision>> Store::open_decision(const Seat& seat,
                                                     const std::string& verb,
                                                     const std::string& args) {
    return decision(
        "SELECT * FROM decisions WHERE instance=? AND thread=? AND verb=? AND args=? AND state<>3",
        seat.instance,
        seat.thread,
        verb,
        args);
}

Result<std::optional<Decision>> Store::pending_decision(const Decision& like) {
    return decision(
        "SELECT * FROM decisions WHERE instance=? AND thread=? AND verb=? AND args=?"
        " AND state=0 AND state<>3",
        like.seat.instance,
        like.seat.thread,
        like.verb,
        like.args);
}

Result<std::optional<Decision>> Store::find_decision(int64_t number) {
    return decision("SELECT * FROM decisions WHERE n=?", number);
}

Result<std::vector<Decision>> Store::answerable_decisions(int64_t after, int64_t max) {
    std::vector<Decision> out;
    MOSAIC_TRY(db_.each(
        "SELECT * FROM decisions WHERE n>? AND state IN (0, 1) ORDER BY n LIMIT ?",
        [&](const Row& row) { out.push_back(read_decision(row)); },
        after,
        max));
    return out;
}

Result<int64_t> Store::count_pending_decisions(const Seat& seat) {
    return number(
        "SELECT count(*) FROM decisions WHERE instance=? AND thread=? AND state=0 AND state<>3",
        seat.instance,
        seat.thread);
}

Result<int64_t> Store::add_decision(const Decision& decision, int64_t at) {
    MOSAIC_TRY(
        db_.execute("INSERT INTO decisions (instance, thread, verb, args, state, requested_at)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    decision.seat.instance,
                    decision.seat.thread,
                    decision.verb,
                    decision.args,
                    static_cast<int64_t>(decision.state),
                    at));
    return db_.last_insert();
}

Result<void> Store::set_decision(int64_t number, DecisionState state, int64_t at) {
    return db_.execute("UPDATE decisions SET state=?, decided_at=? WHERE n=?",
                       static_cast<int64_t>(state),
                       at,
                       number);
}

Result<int64_t> Store::add_task(const StoredTask& task) {
    MOSAIC_TRY(
        db_.execute("INSERT INTO tasks (role, state, title, body, note, by, by_run, at, updated_by)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, '')",
                    task.role,
                    static_cast<int64_t>(task.state),
                    task.title,
                    task.body,
                    task.note,
                    task.by,
                    task.by_run,
                    task.at));
    return db_.last_insert();
}

Result<std::optional<StoredTask>> Store::find_task(int64_t number) {
    std::optional<StoredTask> out;
    MOSAIC_TRY(db_.each(
        "SELECT * FROM tasks WHERE n=?", [&](const Row& row) { out = read_task(row); }, number));
    return out;
}

Result<void> Store::update_task(const StoredTask& task) {
    return db_.execute("UPDATE tasks SET state=?, note=?, updated_by=?, updated_at=? WHERE n=?",
                       static_cast<int64_t>(task.state),
                       task.note,
                       task.updated_by,
                       task.updated_at,
                       task.number);
}

Result<std::vector<StoredTask>> Store::tasks(const TaskFilter& filter) {
    std::vector<StoredTask> out;
    const auto state = filter.state ? static_cast<int64_t>(*filter.state) : int64_t{-1};
    MOSAIC_TRY(db_.each(
        "SELECT * FROM tasks WHERE n>?1 AND (?2='' OR role=?2)"
        " AND (state=?3 OR (?3=-1 AND state<2)) ORDER BY n LIMIT ?4",
        [&](const Row& row) { out.push_back(read_task(row)); },
        filter.after,
        filter.role,
        state,
        filter.max));
    return out;
}

Result<std::optional<int64_t>> Store::unfinished_task_like(const StoredTask& task) {
    std::optional<int64_t> out;
    MOSAIC_TRY(db_.each(
        "SELECT n FROM tasks WHERE by_run=? AND role=? AND title=? AND body=? AND state<2",
        [&](const Row& row) { out = row.integer(0); },
        task.by_run,
        task.role,
        task.title,
        task.body));
    return out;
}

Result<int64_t> Store::count_tasks_by(const std::string& run) {
    return number("SELECT count(*) FROM tasks WHERE by_run=?", run);
}

Result<int64_t> Store::count_unfinished_tasks() {
    return number("SELECT count(*) FROM tasks WHERE state<2");
}

Result<int64_t> Store::count_unfinished_tasks_of(const std::string& role) {
    return number("SELECT count(*) FROM tasks WHERE role=? AND state<2", role);
}

}  // namespace mosaic::broker
