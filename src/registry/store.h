#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/fixed_vector.h"

// The machine that replaces one file durably: sessions.json. Pure: it knows versions, offsets and
// errnos; the host owns the image's bytes, the descriptor and the ring, carries out the effects and
// reports each result.
//
// A replacement is: open a fresh temporary, write all of it, fsync, rename over the file, fsync of
// the directory. Whenever the machine's host dies, the file is the old or the new one, whole.
//
// Versions. The host numbers its changes 1, 2, 3, …; version 0 is what was there at the start. It
// says `changed(version)` after each change to its own model. When `open_temporary(version)` comes,
// it takes its image of the model as it is now; that is the newest version, so all changes that
// waited go out together. `report_durable(version)` says that every change up to that version is on
// disk.
//
// Failures. Any failing step abandons the temporary (closed, unlinked), reports the version with
// its errno, and tries again from a fresh temporary after a delay that doubles up to a maximum: an
// fsync that failed is never repeated on the same file, because the kernel may have dropped the
// pages and then reports success. report_failed doesn't promise that the old file is still there
// (the directory's fsync may have failed after the rename); only that the new one isn't known to be
// durable.

namespace mosaic::registry {

enum class StorePhase : uint8_t {
    idle,      // nothing wanted that isn't durable
    opening,   // the temporary
    clearing,  // unlinking a temporary that an earlier life left
    writing,
    syncing,
    renaming,
    syncing_directory,
    discarding,  // unlinking the temporary of a failed attempt
    resting,     // until the retry is due
};

constexpr size_t kStorePhases = static_cast<size_t>(StorePhase::resting) + 1;

enum class StoreEventKind : uint8_t {
    changed,           // version: the model has it
    opened,            // result; bytes: the image's size
    wrote,             // result: bytes written
    synced,            // result
    renamed,           // result
    directory_synced,  // result
    unlinked,          // result; a name that didn't exist counts as success
    retry_due,
};

constexpr size_t kStoreEvents = static_cast<size_t>(StoreEventKind::retry_due) + 1;

struct StoreEvent {
    StoreEventKind kind = StoreEventKind::changed;
    int64_t result = 0;    // as a completion has it: at least 0, or a negated errno
    uint64_t version = 0;  // changed only
    uint64_t bytes = 0;    // opened only
};

enum class StoreEffectKind : uint8_t {
    open_temporary,    // O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, mode 0600; take the image; ->
                       // opened
    write,             // the image from `offset` to its end; -> wrote
    fsync,             // of the temporary; -> synced
    rename,            // the temporary over the file; -> renamed
    fsync_directory,   // -> directory_synced
    close_temporary,   // no answer: the bytes are synced or unwanted, so a failing close says
                       // nothing
    unlink_temporary,  // -> unlinked
    report_durable,    // every version up to `version`
    report_failed,     // `version` with `sys`; it is tried again by itself
    arm_retry,         // after `delay_ms`; -> retry_due
};

constexpr size_t kStoreEffects = static_cast<size_t>(StoreEffectKind::arm_retry) + 1;

struct StoreEffect {
    StoreEffectKind kind = StoreEffectKind::write;
    uint64_t version = 0;   // open_temporary, report_durable, report_failed
    uint64_t offset = 0;    // write
    int sys = 0;            // report_failed: an errno
    uint32_t delay_ms = 0;  // arm_retry

    bool operator==(const StoreEffect&) const = default;
};

constexpr uint32_t kStoreRetryMsMin = 50;
constexpr uint32_t kStoreRetryMsMax = 1000;

struct StoreState {
    StorePhase phase = StorePhase::idle;
    bool cleared = false;    // this attempt has removed a leftover already
    int sys = 0;             // discarding: why this attempt failed
    uint32_t failures = 0;   // attempts in a row that failed
    uint64_t wanted = 0;     // the newest version of the model
    uint64_t under_way = 0;  // the version in the temporary
    uint64_t durable = 0;    // the newest version known to be on disk
    uint64_t bytes = 0;      // the size of the image under way
    uint64_t offset = 0;     // how much of it is written

    bool operator==(const StoreState&) const = default;

    // Nothing is wanted that isn't on disk, and no operation is under way.
    [[nodiscard]] bool quiet() const { return phase == StorePhase::idle; }
};

struct StoreStep {
    StoreState next;
    FixedVector<StoreEffect, 3> effects;  // to be carried out in this order
};

// What a phase does with an event: one entry for each pair, none missing.
enum class StoreAction : uint8_t {
    impossible,  // a bug of the host: asserted
    begin,
    note,
    start_writing_or_clear,
    open_again,
    advance,
    start_renaming,
    start_syncing_directory,
    finish,
    rest,
    try_again,
};

[[nodiscard]] StoreAction store_action(StorePhase phase, StoreEventKind event);

[[nodiscard]] StoreStep step(const StoreState& state, const StoreEvent& event);

[[nodiscard]] std::string_view to_string(StorePhase phase);
[[nodiscard]] std::string_view to_string(StoreEventKind kind);
[[nodiscard]] std::string_view to_string(StoreEffectKind kind);
[[nodiscard]] std::string_view to_string(StoreAction action);

}  // namespace mosaic::registry
