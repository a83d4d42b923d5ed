// Events into the machine that replaces sessions.json, over a disk that fails, writes short and may
// lose power after every operation. The disk knows what is only in memory yet, so "durable" and
// "the old or the new file, whole" are checked against what would be left.

#include <cerrno>
#include <deque>
#include <optional>

#include "fuzz/fuzz.h"
#include "registry/store.h"

namespace mosaic {
namespace {

using registry::StoreEffect;
using registry::StoreEffectKind;
using registry::StoreEvent;
using registry::StoreEventKind;
using registry::StorePhase;

constexpr uint64_t kImageBytes = 100;

// One file's content.
struct Inode {
    uint64_t version = 0;
    uint64_t bytes = 0;   // written in order, without holes
    bool synced = false;  // all of `bytes` survives a loss of power

    [[nodiscard]] bool whole() const { return bytes == kImageBytes && synced; }
};

class Disk {
  public:
    // ---- the operations ----

    int64_t create(uint64_t version) {
        if (temporary_) {
            return -EEXIST;
        }
        temporary_ = Inode{.version = version, .bytes = 0, .synced = false};
        return 0;
    }

    void write(uint64_t offset, uint64_t bytes) {
        FUZZ_CHECK(temporary_ && offset == temporary_->bytes);
        temporary_->bytes += bytes;
        temporary_->synced = false;
        FUZZ_CHECK(temporary_->bytes <= kImageBytes);
    }

    void sync() { temporary_->synced = true; }

    void rename() {
        FUZZ_CHECK(temporary_);
        file_ = *temporary_;
        temporary_.reset();
    }

    void sync_directory() { durable_ = file_; }

    void unlink() { temporary_.reset(); }

    // ---- what a loss of power leaves ----

    // The name may stand for what it did at the last directory fsync or for what it does now:
    // whichever it is, it is whole.
    void check_crash() const { FUZZ_CHECK(file_.whole() && durable_.whole()); }

    // The least that is left.
    [[nodiscard]] uint64_t durable_version() const { return durable_.version; }

    [[nodiscard]] bool has_temporary() const { return temporary_.has_value(); }

  private:
    Inode file_ = {.version = 0, .bytes = kImageBytes, .synced = true};
    Inode durable_ = file_;
    std::optional<Inode> temporary_;
};

class World {
  public:
    World(fuzz::Choices& choices, bool leftover) : choices_(choices) {
        if (leftover) {
            FUZZ_CHECK(disk_.create(0) == 0);
        }
    }

    void change() { happen({.kind = StoreEventKind::changed, .version = ++version_}); }

    [[nodiscard]] bool pending() const { return !pending_.empty(); }

    // The answer to the oldest effect that has one.
    void answer(bool kind) {
        const StoreEffect effect = pending_.front();
        pending_.pop_front();
        const bool fails = !kind && choices_.below(4) == 0;
        switch (effect.kind) {
            case StoreEffectKind::open_temporary:
                opened(effect, fails);
                break;
            case StoreEffectKind::write:
                wrote(effect, fails, kind);
                break;
            case StoreEffectKind::fsync:
                // A failed fsync leaves nobody knows what; the machine must not use the file.
                fails ? void() : disk_.sync();
                happen({.kind = StoreEventKind::synced, .result = fails ? -EIO : 0});
                break;
            case StoreEffectKind::rename:
                fails ? void() : disk_.rename();
                happen({.kind = StoreEventKind::renamed, .result = fails ? -EIO : 0});
                break;
            case StoreEffectKind::fsync_directory:
                fails ? void() : disk_.sync_directory();
                happen({.kind = StoreEventKind::directory_synced, .result = fails ? -EIO : 0});
                break;
            case StoreEffectKind::unlink_temporary:
                unlinked(fails);
                break;
            case StoreEffectKind::arm_retry:
                happen({.kind = StoreEventKind::retry_due});
                break;
            case StoreEffectKind::close_temporary:
            case StoreEffectKind::report_durable:
            case StoreEffectKind::report_failed:
                FUZZ_CHECK(false);
        }
        disk_.check_crash();
    }

    void check_quiet() const {
        FUZZ_CHECK(state_.quiet() && !disk_.has_temporary());
        FUZZ_CHECK(disk_.durable_version() == version_ && reported_ == version_);
    }

    [[nodiscard]] bool quiet() const { return state_.quiet(); }

  private:
    void opened(const StoreEffect& effect, bool fails) {
        const int64_t result = fails ? -ENOSPC : disk_.create(effect.version);
        happen({.kind = StoreEventKind::opened, .result = result, .bytes = kImageBytes});
    }

    void wrote(const StoreEffect& effect, bool fails, bool kind) {
        if (fails) {
            constexpr int64_t kHow[] = {-ENOSPC, -EIO, -EINTR, 0};
            happen({.kind = StoreEventKind::wrote, .result = kHow[choices_.below(4)]});
            return;
        }
        const uint64_t left = kImageBytes - effect.offset;
        const uint64_t bytes = kind ? left : 1 + choices_.below(left);
        disk_.write(effect.offset, bytes);
        happen({.kind = StoreEventKind::wrote, .result = static_cast<int64_t>(bytes)});
    }

    void unlinked(bool fails) {
        int64_t result = disk_.has_temporary() ? 0 : -ENOENT;
        if (fails) {
            result = -EIO;
        } else {
            disk_.unlink();
        }
        happen({.kind = StoreEventKind::unlinked, .result = result});
    }

    void happen(const StoreEvent& event) {
        const registry::StoreStep step = registry::step(state_, event);
        state_ = step.next;
        for (const StoreEffect& effect : step.effects) {
            switch (effect.kind) {
                case StoreEffectKind::close_temporary:
                    break;
                case StoreEffectKind::report_durable:
                    // Whoever was waiting acts on it: a capability leaves.
                    FUZZ_CHECK(effect.version <= disk_.durable_version());
                    FUZZ_CHECK(effect.version > reported_ && effect.version <= version_);
                    reported_ = effect.version;
                    break;
                case StoreEffectKind::report_failed:
                    FUZZ_CHECK(effect.sys > 0 && effect.version <= version_);
                    break;
                case StoreEffectKind::arm_retry:
                    FUZZ_CHECK(effect.delay_ms >= registry::kStoreRetryMsMin);
                    FUZZ_CHECK(effect.delay_ms <= registry::kStoreRetryMsMax);
                    pending_.push_back(effect);
                    break;
                case StoreEffectKind::open_temporary:
                case StoreEffectKind::write:
                case StoreEffectKind::fsync:
                case StoreEffectKind::rename:
                case StoreEffectKind::fsync_directory:
                case StoreEffectKind::unlink_temporary:
                    pending_.push_back(effect);
            }
        }
        FUZZ_CHECK(pending_.size() <= 1);  // one step at a time
        FUZZ_CHECK(state_.quiet() == pending_.empty());
    }

    fuzz::Choices& choices_;
    Disk disk_;
    registry::StoreState state_;
    std::deque<StoreEffect> pending_;
    uint64_t version_ = 0;
    uint64_t reported_ = 0;
};

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    fuzz::Choices choices(data, size);
    World world(choices, choices.coin());
    while (!choices.empty()) {
        if (world.pending() && choices.below(4) != 0) {
            world.answer(false);
        } else {
            world.change();
        }
    }
    // The disk is well again: all that was wanted gets there.
    for (int i = 0; i < 40 && !world.quiet(); ++i) {
        world.answer(true);
    }
    if (world.quiet()) {
        world.change();
    }
    for (int i = 0; i < 40 && !world.quiet(); ++i) {
        world.answer(true);
    }
    world.check_quiet();
    return 0;
}
