#pragma once

#include <array>

// The store's schema. `user_version` has the version, `application_id` says whose file it is
// ("MOSA"). A change adds a version as the step from the one before; versions that went out never
// change. A new file goes through all of them, so there is one way to each version.

namespace mosaic::broker {

constexpr int kApplicationId = 0x4d4f5341;

constexpr const char* kVersion1 = R"sql(
CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    instance TEXT NOT NULL,
    thread TEXT NOT NULL,            -- empty: the plain run
    harness TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    launched_by TEXT NOT NULL,
    transcript TEXT NOT NULL,
    pid INTEGER NOT NULL,
    start_time TEXT NOT NULL,
    runner_pid INTEGER NOT NULL,
    runner_start_time TEXT NOT NULL,
    cap_hash TEXT NOT NULL,          -- empty: no living capability
    bound_at INTEGER,                -- NULL: known by its end alone
    claimed_at INTEGER,
    released_at INTEGER,
    ended_at INTEGER,
    end_reason TEXT,
    exit_code INTEGER,
    signal TEXT,
    detail TEXT
) STRICT;
CREATE UNIQUE INDEX live_seats ON runs (instance, thread) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX live_runners ON runs (runner_pid, runner_start_time) WHERE ended_at IS NULL;

-- Who holds a role: the primary key is what keeps it to one.
CREATE TABLE seats (
    instance TEXT NOT NULL,
    thread TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (instance, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    n INTEGER PRIMARY KEY,
    to_instance TEXT NOT NULL,
    to_thread TEXT NOT NULL,
    from_instance TEXT NOT NULL,
    from_thread TEXT NOT NULL,
    from_run TEXT NOT NULL,          -- empty: the human
    class INTEGER NOT NULL,
    body TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    in_reply_to INTEGER NOT NULL,    -- 0: none
    at INTEGER NOT NULL,
    acked_at INTEGER
) STRICT;
CREATE INDEX queue ON messages (to_instance, to_thread, n, bytes) WHERE acked_at IS NULL;
CREATE INDEX queued_by ON messages (from_run, bytes) WHERE acked_at IS NULL;
CREATE INDEX replies ON messages (in_reply_to, n) WHERE in_reply_to <> 0;

-- Numbered without gaps: rows are only ever added, and a rolled-back number is given again.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    event TEXT NOT NULL              -- the whole JSON object
) STRICT;

CREATE TABLE switches (
    n INTEGER PRIMARY KEY,
    allowed INTEGER NOT NULL,
    by TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE decisions (
    n INTEGER PRIMARY KEY,
    instance TEXT NOT NULL,
    thread TEXT NOT NULL,
    verb TEXT NOT NULL,
    args TEXT NOT NULL,
    state INTEGER NOT NULL,          -- 0 pending, 1 allowed, 2 refused, 3 used
    requested_at INTEGER NOT NULL,
    decided_at INTEGER
) STRICT;
CREATE INDEX open_decisions ON decisions (instance, thread, verb) WHERE state <> 3;
)sql";

constexpr const char* kVersion2 = R"sql(
CREATE TABLE tasks (
    n INTEGER PRIMARY KEY,
    role TEXT NOT NULL,              -- who is to do it
    state INTEGER NOT NULL,          -- 0 open, 1 doing, 2 done, 3 dropped
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    note TEXT NOT NULL,              -- the last one
    by TEXT NOT NULL,                -- the seat that made it
    by_run TEXT NOT NULL,
    at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at INTEGER
) STRICT;
CREATE INDEX unfinished_tasks ON tasks (role, n) WHERE state < 2;
CREATE INDEX tasks_by ON tasks (by_run);
)sql";

// `send_key` is the sender's word for a message, by which one that is sent again is known.
constexpr const char* kVersion3 = R"sql(
ALTER TABLE messages ADD COLUMN send_key TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX sent_once ON messages (from_run, send_key) WHERE send_key <> '';
)sql";

// kSteps[i] makes version i + 1 of version i.
constexpr std::array<const char*, 3> kSteps = {kVersion1, kVersion2, kVersion3};
constexpr int kSchemaVersion = static_cast<int>(kSteps.size());

}  // namespace mosaic::broker
