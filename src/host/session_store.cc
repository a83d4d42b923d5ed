#include "host/session_store.h"

#include <fcntl.h>

#include "base/assert.h"
#include "base/crash_point.h"
#include "host/log.h"
#include "registry/layout.h"

namespace mosaic::host {
namespace {

using registry::StoreEffectKind;
using registry::StoreEvent;
using registry::StoreEventKind;

// string_views of the layout are literals, so their data ends with a NUL.
const char* const kFile = registry::kSessions.data();
const char* const kTemporary = registry::kSessionsTemporary.data();

}  // namespace

SessionStore::SessionStore(Loop& loop, int directory, std::string boot_id)
    : loop_(loop), directory_(directory), boot_id_(std::move(boot_id)) {
    own(op_, Owner::store, 0);
    own(close_op_, Owner::store_close, 0);
}

void SessionStore::adopt(const std::vector<registry::SessionEntry>& entries,
                         const std::string& boot_id) {
    for (const registry::SessionEntry& entry : entries) {
        entries_.adopt(entry.run, registry::dump_entry(entry), boot_id);
    }
}

void SessionStore::add(const registry::SessionEntry& entry, SlotRef waiter) {
    changed(entries_.add(entry.run, registry::dump_entry(entry), Waiter{waiter, std::nullopt}));
}

void SessionStore::amend(const registry::SessionEntry& entry) {
    add(entry, SlotRef{});
}

void SessionStore::remove(const std::string& run, SlotRef waiter) {
    changed(entries_.remove(run, Waiter{waiter, std::nullopt}));
}

void SessionStore::remove_leftover(const std::string& run, uint32_t leftover) {
    changed(entries_.remove(run, Waiter{{}, leftover}));
}

void SessionStore::changed(uint64_t version) {
    feed(StoreEvent{StoreEventKind::changed, 0, version, 0});
}

void SessionStore::feed(const StoreEvent& event) {
    MOSAIC_CRASH_POINT("store", "on", registry::to_string(event.kind));
    const registry::StoreStep s = registry::step(state_, event);
    state_ = s.next;
    for (const registry::StoreEffect& effect : s.effects) {
        carry_out(effect);
        MOSAIC_CRASH_POINT("store", "after", registry::to_string(effect.kind));
    }
}

void SessionStore::open_temporary() {
    begun_ = loop_.now;
    image_ = entries_.image(boot_id_);
    // Appending, so that what follows a short write can't land on the part before it (TRAP-25).
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND;
    loop_.ring->openat(op_, directory_, kTemporary, kFlags, registry::kFileMode);
    awaited_ = StoreEventKind::opened;
}

void SessionStore::carry_out(const registry::StoreEffect& effect) {
    switch (effect.kind) {
        case StoreEffectKind::open_temporary:
            open_temporary();
            break;
        case StoreEffectKind::write:
            loop_.ring->write(
                op_, temporary_, image_.data() + effect.offset, image_.size() - effect.offset);
            awaited_ = StoreEventKind::wrote;
            break;
        case StoreEffectKind::fsync:
            loop_.ring->fsync(op_, temporary_);
            awaited_ = StoreEventKind::synced;
            break;
        case StoreEffectKind::rename:
            loop_.ring->renameat(op_, directory_, kTemporary, directory_, kFile);
            awaited_ = StoreEventKind::renamed;
            break;
        case StoreEffectKind::fsync_directory:
            loop_.ring->fsync(op_, directory_);
            awaited_ = StoreEventKind::directory_synced;
            break;
        case StoreEffectKind::close_temporary:
            if (temporary_ >= 0 && close_op_.idle()) {
                loop_.ring->close(close_op_, temporary_);
            } else if (temporary_ >= 0) {
                ::close(temporary_);
            }
            temporary_ = -1;
            break;
        case StoreEffectKind::unlink_temporary:
            loop_.ring->unlinkat(op_, directory_, kTemporary, 0);
            awaited_ = StoreEventKind::unlinked;
            break;
        case StoreEffectKind::report_durable:
            report_durable(effect.version);
            break;
        case StoreEffectKind::report_failed:
            report_failed(effect.version, effect.sys);
            break;
        case StoreEffectKind::arm_retry:
            loop_.set_timer(TimerKind::store_retry, 0, 0, milliseconds(effect.delay_ms));
            break;
    }
}

void SessionStore::on_completion() {
    StoreEvent event{awaited_, op_.result(), 0, 0};
    if (awaited_ == StoreEventKind::opened && op_.result() >= 0) {
        temporary_ = op_.result();
        event.result = 0;
        event.bytes = image_.size();
    }
    feed(event);
}

void SessionStore::on_close_done() {}

void SessionStore::on_retry() {
    feed(StoreEvent{StoreEventKind::retry_due, 0, 0, 0});
}

void SessionStore::report_durable(uint64_t version) {
    loop_.counts.sessions_file.observe(loop_.now - begun_);
    if (complained_) {
        log_line("sessions.json is written again");
        complained_ = false;
    }
    for (const auto& change : entries_.take_durable(version)) {
        if (change.waiter.leftover) {
            loop_.post(*change.waiter.leftover, launch::LeftoverEvent::removed);
        } else {
            loop_.post(change.waiter.slot,
                       change.adding ? launch::EventKind::recorded : launch::EventKind::removed);
        }
    }
}

void SessionStore::report_failed(uint64_t version, int sys) {
    loop_.counts.sessions_file_failures.add();
    problem_ = "sessions.json can't be written (" + errno_text(sys) + ")";
    if (!complained_) {
        log_line(problem_ + "; trying again");
        complained_ = true;
    }
    for (const auto& change : entries_.take_failed(version)) {
        loop_.post(change.waiter.slot, launch::EventKind::record_failed);
    }
}

bool SessionStore::quiet() const {
    return state_.quiet() && !entries_.waiting() && op_.idle() && close_op_.idle();
}

}  // namespace mosaic::host
