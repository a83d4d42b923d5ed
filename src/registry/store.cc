#include "registry/store.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"

namespace mosaic::registry {
namespace {

using Action = StoreAction;
using Event = StoreEventKind;
using Effect = StoreEffectKind;
using Phase = StorePhase;

using Row = std::array<Action, kStoreEvents>;

constexpr Action kNo = Action::impossible;

// Rows are phases; columns are events, both in the order of their enums.
constexpr std::array<Row, kStorePhases> kTable = {{
    // changed, opened, wrote, synced, renamed, directory_synced, unlinked, retry_due
    {Action::begin, kNo, kNo, kNo, kNo, kNo, kNo, kNo},                             // idle
    {Action::note, Action::start_writing_or_clear, kNo, kNo, kNo, kNo, kNo, kNo},   // opening
    {Action::note, kNo, kNo, kNo, kNo, kNo, Action::open_again, kNo},               // clearing
    {Action::note, kNo, Action::advance, kNo, kNo, kNo, kNo, kNo},                  // writing
    {Action::note, kNo, kNo, Action::start_renaming, kNo, kNo, kNo, kNo},           // syncing
    {Action::note, kNo, kNo, kNo, Action::start_syncing_directory, kNo, kNo, kNo},  // renaming
    {Action::note, kNo, kNo, kNo, kNo, Action::finish, kNo, kNo},     // syncing_directory
    {Action::note, kNo, kNo, kNo, kNo, kNo, Action::rest, kNo},       // discarding
    {Action::note, kNo, kNo, kNo, kNo, kNo, kNo, Action::try_again},  // resting
}};

constexpr std::array<std::string_view, kStorePhases> kPhaseText = {"idle",
                                                                   "opening",
                                                                   "clearing",
                                                                   "writing",
                                                                   "syncing",
                                                                   "renaming",
                                                                   "syncing_directory",
                                                                   "discarding",
                                                                   "resting"};

constexpr std::array<std::string_view, kStoreEvents> kEventText = {
    "changed", "opened", "wrote", "synced", "renamed", "directory_synced", "unlinked", "retry_due"};

constexpr std::array<std::string_view, kStoreEffects> kEffectText = {"open_temporary",
                                                                     "write",
                                                                     "fsync",
                                                                     "rename",
                                                                     "fsync_directory",
                                                                     "close_temporary",
                                                                     "unlink_temporary",
                                                                     "report_durable",
                                                                     "report_failed",
                                                                     "arm_retry"};

constexpr std::array<std::string_view, static_cast<size_t>(Action::try_again) + 1> kActionText = {
    "impossible",
    "begin",
    "note",
    "start_writing_or_clear",
    "open_again",
    "advance",
    "start_renaming",
    "start_syncing_directory",
    "finish",
    "rest",
    "try_again"};

int errno_of(int64_t result) {
    return static_cast<int>(-result);
}

void emit(StoreStep& out, StoreEffect effect) {
    out.effects.push_back(effect);
}

void emit(StoreStep& out, Effect kind) {
    emit(out, StoreEffect{.kind = kind});
}

// A fresh temporary with the newest version.
void open_temporary(StoreStep& out) {
    StoreState& s = out.next;
    MOSAIC_ASSERT(s.wanted > s.durable);
    s.phase = Phase::opening;
    s.under_way = s.wanted;
    s.bytes = 0;
    s.offset = 0;
    emit(out, StoreEffect{.kind = Effect::open_temporary, .version = s.under_way});
}

void begin_attempt(StoreStep& out) {
    out.next.cleared = false;
    open_temporary(out);
}

void report_and_rest(StoreStep& out) {
    StoreState& s = out.next;
    s.phase = Phase::resting;
    // 50, 100, 200, 400, 800, 1000, 1000, … ms.
    const uint32_t doublings = std::min(s.failures, uint32_t{5});
    const uint32_t delay = std::min(kStoreRetryMsMin << doublings, kStoreRetryMsMax);
    if (s.failures < UINT32_MAX) {
        ++s.failures;
    }
    emit(out, StoreEffect{.kind = Effect::report_failed, .version = s.under_way, .sys = s.sys});
    emit(out, StoreEffect{.kind = Effect::arm_retry, .delay_ms = delay});
    s.sys = 0;
}

void discard(StoreStep& out, int sys) {
    out.next.phase = Phase::discarding;
    out.next.sys = sys;
    emit(out, Effect::unlink_temporary);
}

void opened(StoreStep& out, const StoreEvent& event) {
    StoreState& s = out.next;
    if (event.result == -EEXIST && !s.cleared) {
        s.phase = Phase::clearing;
        s.cleared = true;
        emit(out, Effect::unlink_temporary);
        return;
    }
    if (event.result < 0) {
        s.sys = errno_of(event.result);
        report_and_rest(out);
        return;
    }
    MOSAIC_ASSERT(event.bytes > 0);
    s.phase = Phase::writing;
    s.bytes = event.bytes;
    emit(out, StoreEffect{.kind = Effect::write, .offset = 0});
}

void leftover_unlinked(StoreStep& out, const StoreEvent& event) {
    if (event.result < 0 && event.result != -ENOENT) {
        out.next.sys = errno_of(event.result);
        report_and_rest(out);
        return;
    }
    open_temporary(out);
}

void wrote(StoreStep& out, const StoreEvent& event) {
    StoreState& s = out.next;
    // A write that was interrupted before its first byte goes on; one that wrote nothing for no
    // reason would go on for ever.
    const bool interrupted = event.result == -EINTR;
    if (!interrupted && event.result <= 0) {
        emit(out, Effect::close_temporary);
        discard(out, event.result == 0 ? EIO : errno_of(event.result));
        return;
    }
    s.offset += interrupted ? 0 : static_cast<uint64_t>(event.result);
    MOSAIC_ASSERT(s.offset <= s.bytes);
    if (s.offset < s.bytes) {
        emit(out, StoreEffect{.kind = Effect::write, .offset = s.offset});
        return;
    }
    s.phase = Phase::syncing;
    emit(out, Effect::fsync);
}

void synced(StoreStep& out, const StoreEvent& event) {
    emit(out, Effect::close_temporary);
    if (event.result < 0) {
        discard(out, errno_of(event.result));
        return;
    }
    out.next.phase = Phase::renaming;
    emit(out, Effect::rename);
}

void renamed(StoreStep& out, const StoreEvent& event) {
    if (event.result < 0) {
        discard(out, errno_of(event.result));
        return;
    }
    out.next.phase = Phase::syncing_directory;
    emit(out, Effect::fsync_directory);
}

void directory_synced(StoreStep& out, const StoreEvent& event) {
    StoreState& s = out.next;
    if (event.result < 0) {
        // The temporary's name is gone already; only a new rename makes the directory worth another
        // fsync.
        s.sys = errno_of(event.result);
        report_and_rest(out);
        return;
    }
    s.phase = Phase::idle;
    s.failures = 0;
    s.durable = s.under_way;
    emit(out, StoreEffect{.kind = Effect::report_durable, .version = s.durable});
    if (s.wanted > s.durable) {
        begin_attempt(out);
    }
}

void note(StoreStep& out, const StoreEvent& event) {
    MOSAIC_ASSERT(event.version > out.next.wanted);
    out.next.wanted = event.version;
}

void carry_out(StoreAction action, StoreStep& out, const StoreEvent& event) {
    switch (action) {
        case Action::impossible:
            MOSAIC_ASSERT(action != Action::impossible);
            return;
        case Action::begin:
            note(out, event);
            begin_attempt(out);
            return;
        case Action::note:
            note(out, event);
            return;
        case Action::start_writing_or_clear:
            opened(out, event);
            return;
        case Action::open_again:
            leftover_unlinked(out, event);
            return;
        case Action::advance:
            wrote(out, event);
            return;
        case Action::start_renaming:
            synced(out, event);
            return;
        case Action::start_syncing_directory:
            renamed(out, event);
            return;
        case Action::finish:
            directory_synced(out, event);
            return;
        case Action::rest:
            // A temporary that could not be unlinked is a leftover for the next attempt.
            report_and_rest(out);
            return;
        case Action::try_again:
            begin_attempt(out);
            return;
    }
}

}  // namespace

StoreAction store_action(StorePhase phase, StoreEventKind event) {
    return kTable[static_cast<size_t>(phase)][static_cast<size_t>(event)];
}

StoreStep step(const StoreState& state, const StoreEvent& event) {
    StoreStep out;
    out.next = state;
    carry_out(store_action(state.phase, event.kind), out, event);
    return out;
}

std::string_view to_string(StorePhase phase) {
    return kPhaseText[static_cast<size_t>(phase)];
}

std::string_view to_string(StoreEventKind kind) {
    return kEventText[static_cast<size_t>(kind)];
}

std::string_view to_string(StoreEffectKind kind) {
    return kEffectText[static_cast<size_t>(kind)];
}

std::string_view to_string(StoreAction action) {
    return kActionText[static_cast<size_t>(action)];
}

}  // namespace mosaic::registry
