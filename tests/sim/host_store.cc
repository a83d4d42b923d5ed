// sessions.json: the registry's store machine carried out on the world's disk, as
// src/host/session_store.cc does it.

#include <cerrno>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {

using registry::StoreEffectKind;
using registry::StoreEventKind;

void Host::changed(uint64_t version) {
    feed({StoreEventKind::changed, 0, version, 0});
}

void Host::feed(const registry::StoreEvent& event) {
    if (dead_) {
        return;
    }
    world_.note("store event", 0, event.version, registry::to_string(event.kind));
    const registry::StoreStep next = registry::step(store_, event);
    store_ = next.next;
    for (const registry::StoreEffect& effect : next.effects) {
        if (dies_here()) {
            return;
        }
        carry_out(effect);
    }
}

void Host::begin_store_op(StoreEventKind awaited) {
    awaited_ = awaited;
    store_busy_ = true;
    const bool syncs =
        awaited == StoreEventKind::synced || awaited == StoreEventKind::directory_synced;
    world_.wake(world_.us(5, syncs ? world_.shape.fsync_us_max : 100) * 1000,
                {.kind = Wake::host_op,
                 .sub = static_cast<uint8_t>(HostOp::store),
                 .epoch = world_.host_epoch});
}

void Host::carry_out(const registry::StoreEffect& effect) {
    switch (effect.kind) {
        case StoreEffectKind::open_temporary:
            image_ = entries_.image("boot-" + std::to_string(world_.boot));
            begin_store_op(StoreEventKind::opened);
            break;
        case StoreEffectKind::write:
            write_offset_ = effect.offset;
            begin_store_op(StoreEventKind::wrote);
            break;
        case StoreEffectKind::fsync:
            begin_store_op(StoreEventKind::synced);
            break;
        case StoreEffectKind::rename:
            begin_store_op(StoreEventKind::renamed);
            break;
        case StoreEffectKind::fsync_directory:
            begin_store_op(StoreEventKind::directory_synced);
            break;
        case StoreEffectKind::close_temporary:
            break;
        case StoreEffectKind::unlink_temporary:
            begin_store_op(StoreEventKind::unlinked);
            break;
        case StoreEffectKind::report_durable:
            report_durable(world_.mutated(Mutation::every_waiter_told) ? UINT64_MAX
                                                                       : effect.version);
            break;
        case StoreEffectKind::report_failed:
            report_failed(effect.version);
            break;
        case StoreEffectKind::arm_retry:
            set_timer(TimerKind::store_retry, 0, 0, int64_t{effect.delay_ms} * 1'000'000);
            break;
    }
}

// What the kernel does, at the moment it does it.
void Host::perform_store_op() {
    Disk& disk = world_.disk;
    const bool in_place = world_.mutated(Mutation::file_written_in_place);
    switch (awaited_) {
        case StoreEventKind::opened:
            store_result_ = disk.open_temporary(in_place);
            break;
        case StoreEventKind::wrote: {
            const std::string_view rest = std::string_view(image_).substr(write_offset_);
            const bool again =
                write_offset_ > 0 && world_.mutated(Mutation::short_write_over_its_part);
            store_result_ = disk.write(rest, again);
            if (store_result_ > 0 && world_.mutated(Mutation::short_write_taken_for_whole)) {
                store_result_ = static_cast<int64_t>(rest.size());
            }
            break;
        }
        case StoreEventKind::synced:
            store_result_ = 0;
            if (!world_.mutated(Mutation::file_not_synced) &&
                !world_.mutated(Mutation::synced_after_rename)) {
                store_result_ = disk.sync_file();
            }
            if (store_result_ < 0 && world_.mutated(Mutation::failed_sync_repeated)) {
                store_result_ = disk.sync_file();
            }
            break;
        case StoreEventKind::renamed:
            store_result_ = in_place ? disk.rewritten() : disk.rename();
            if (world_.mutated(Mutation::synced_after_rename) && store_result_ == 0) {
                store_result_ = disk.sync_file();
            }
            break;
        case StoreEventKind::directory_synced:
            store_result_ =
                world_.mutated(Mutation::directory_not_synced) ? 0 : disk.sync_directory();
            break;
        case StoreEventKind::unlinked:
            store_result_ = disk.unlink_temporary();
            break;
        case StoreEventKind::changed:
        case StoreEventKind::retry_due:
            break;
    }
}

void Host::report_durable(uint64_t version) {
    for (const auto& change : entries_.take_durable(version)) {
        if (change.waiter.leftover) {
            leftover_events_.push_back({*change.waiter.leftover, launch::LeftoverEvent::removed});
        } else {
            post(change.waiter.slot,
                 change.adding ? launch::EventKind::recorded : launch::EventKind::removed);
        }
    }
}

void Host::report_failed(uint64_t version) {
    for (const auto& change : entries_.take_failed(version)) {
        post(change.waiter.slot, launch::EventKind::record_failed);
    }
}

}  // namespace mosaic::sim
