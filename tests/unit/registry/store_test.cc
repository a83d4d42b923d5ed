// Goal: whatever fails and whenever the host dies, sessions.json is the old or the new file, whole,
// and a version that was reported durable is never lost. Method: a simulated disk that keeps what
// has reached it apart from what has not (file contents, and the directory entries that may or may
// not survive), and every sequence of outcomes up to a bound: at each point either the operation
// under way ends in one of its ways or another change arrives. After every single effect the disk
// is asked what a crash now could leave.

#include "registry/store.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace registry = mosaic::registry;
using registry::StoreAction;
using registry::StoreEffect;
using registry::StoreEffectKind;
using registry::StoreEvent;
using registry::StoreEventKind;
using registry::StorePhase;
using registry::StoreState;

namespace {

// Enumerates all sequences of choices: run a scenario, which asks choose(n), until next() is false.
class Choices {
  public:
    explicit Choices(size_t depth_max) : depth_max_(depth_max) {}

    // Past the bound always the first option.
    size_t choose(size_t options) {
        if (at_ == depth_max_) {
            return 0;
        }
        if (at_ == taken_.size()) {
            taken_.push_back({0, options});
        }
        CHECK(taken_[at_].options == options);
        return taken_[at_++].chosen;
    }

    bool next() {
        at_ = 0;
        while (!taken_.empty() && taken_.back().chosen + 1 == taken_.back().options) {
            taken_.pop_back();
        }
        if (taken_.empty()) {
            return false;
        }
        ++taken_.back().chosen;
        return true;
    }

    [[nodiscard]] std::string describe() const {
        std::string out;
        for (const Taken& t : taken_) {
            out += std::to_string(t.chosen) + "/" + std::to_string(t.options) + " ";
        }
        return out;
    }

  private:
    struct Taken {
        size_t chosen = 0;
        size_t options = 0;
    };

    size_t depth_max_;
    size_t at_ = 0;
    std::vector<Taken> taken_;
};

std::string image_of(uint64_t version) {
    return "[v" + std::to_string(version) + "]";
}

struct Inode {
    std::string cached;
    std::string on_disk;
    bool lost_pages = false;  // an fsync failed: later ones succeed and save nothing
};

class Disk {
  public:
    explicit Disk(bool leftover) {
        inodes_.push_back({image_of(0), image_of(0), false});
        if (leftover) {
            inodes_.push_back({"[v9", "", false});
            temporary_ = 1;
        }
    }

    bool temporary_exists() const { return temporary_.has_value(); }

    void create_temporary() {
        REQUIRE_FALSE(temporary_.has_value());
        inodes_.emplace_back();
        temporary_ = inodes_.size() - 1;
        open_ = temporary_;
    }

    void write(size_t offset, const std::string& bytes) {
        REQUIRE(open_.has_value());
        CHECK(inodes_[*open_].cached.size() == offset);
        inodes_[*open_].cached += bytes;
    }

    void fsync(bool ok) {
        REQUIRE(open_.has_value());
        Inode& inode = inodes_[*open_];
        if (!ok) {
            inode.lost_pages = true;
        } else if (!inode.lost_pages) {
            inode.on_disk = inode.cached;
        }
    }

    void close() {
        REQUIRE(open_.has_value());
        open_.reset();
    }

    void rename() {
        REQUIRE(temporary_.has_value());
        file_ = *temporary_;
        temporary_.reset();
        may_survive_.insert(file_);
    }

    void fsync_directory() { may_survive_ = {file_}; }

    void unlink_temporary() { temporary_.reset(); }

    bool is_open() const { return open_.has_value(); }

    // The version that each possible crash leaves must be whole; the oldest of them.
    uint64_t oldest_after_crash(uint64_t versions) const {
        uint64_t oldest = versions;
        for (const size_t inode : may_survive_) {
            std::optional<uint64_t> version;
            for (uint64_t v = 0; v <= versions; ++v) {
                if (inodes_[inode].on_disk == image_of(v)) {
                    version = v;
                }
            }
            REQUIRE_MESSAGE(version.has_value(), "a torn file: " << inodes_[inode].on_disk);
            oldest = std::min(oldest, *version);
        }
        return oldest;
    }

    std::string content() const { return inodes_[file_].cached; }

  private:
    std::vector<Inode> inodes_;
    size_t file_ = 0;                     // what the name means to those who run now
    std::set<size_t> may_survive_ = {0};  // what it may mean after a crash
    std::optional<size_t> temporary_;
    std::optional<size_t> open_;
};

// A host in small: one operation under way, a model with a version, and the reports it got.
class World {
  public:
    World(Choices& choices, uint64_t changes)
        : choices_(choices), changes_left_(changes), disk_(choices.choose(2) == 1) {}

    void run() {
        for (size_t ticks = 0; pending_ || changes_left_ > 0; ++ticks) {
            REQUIRE(ticks < 200);
            const bool can_change = changes_left_ > 0;
            // A change first when nothing else can happen, else one of both.
            if (!pending_ || (can_change && choices_.choose(2) == 1)) {
                --changes_left_;
                ++model_;
                deliver({.kind = StoreEventKind::changed, .version = model_});
                continue;
            }
            const StoreEffect op = *pending_;
            pending_.reset();
            deliver(outcome_of(op));
        }
        CHECK(state_.quiet());
        CHECK(state_.durable == model_);
        CHECK(reported_ == model_);
        CHECK(disk_.content() == image_of(model_));
        CHECK_FALSE(disk_.is_open());
        CHECK_FALSE(disk_.temporary_exists());
    }

  private:
    void deliver(const StoreEvent& event) {
        const registry::StoreStep out = registry::step(state_, event);
        state_ = out.next;
        for (const StoreEffect& effect : out.effects) {
            carry_out(effect);
            CHECK(disk_.oldest_after_crash(model_) >= reported_);
        }
    }

    void carry_out(const StoreEffect& effect) {
        switch (effect.kind) {
            case StoreEffectKind::close_temporary:
                disk_.close();
                return;
            case StoreEffectKind::report_durable:
                CHECK(effect.version > reported_);
                reported_ = effect.version;
                return;
            case StoreEffectKind::report_failed:
                CHECK(effect.version > reported_);
                CHECK(effect.sys > 0);
                return;
            case StoreEffectKind::open_temporary:
                CHECK(effect.version == model_);
                image_ = image_of(model_);
                wait_for(effect);
                return;
            case StoreEffectKind::write:
            case StoreEffectKind::fsync:
            case StoreEffectKind::rename:
            case StoreEffectKind::fsync_directory:
            case StoreEffectKind::unlink_temporary:
            case StoreEffectKind::arm_retry:
                wait_for(effect);
                return;
        }
    }

    void wait_for(const StoreEffect& effect) {
        REQUIRE_FALSE(pending_.has_value());
        pending_ = effect;
    }

    StoreEvent outcome_of(const StoreEffect& op) {
        switch (op.kind) {
            case StoreEffectKind::open_temporary:
                return open_outcome();
            case StoreEffectKind::write:
                return write_outcome(op.offset);
            case StoreEffectKind::fsync: {
                const bool ok = choices_.choose(2) == 0;
                disk_.fsync(ok);
                return {.kind = StoreEventKind::synced, .result = ok ? 0 : -EIO};
            }
            case StoreEffectKind::rename: {
                const bool ok = choices_.choose(2) == 0;
                if (ok) {
                    disk_.rename();
                }
                return {.kind = StoreEventKind::renamed, .result = ok ? 0 : -EIO};
            }
            case StoreEffectKind::fsync_directory: {
                const bool ok = choices_.choose(2) == 0;
                if (ok) {
                    disk_.fsync_directory();
                }
                return {.kind = StoreEventKind::directory_synced, .result = ok ? 0 : -EIO};
            }
            case StoreEffectKind::unlink_temporary: {
                const bool ok = choices_.choose(2) == 0;
                const bool existed = disk_.temporary_exists();
                if (ok) {
                    disk_.unlink_temporary();
                }
                return {.kind = StoreEventKind::unlinked,
                        .result = !existed ? -ENOENT : (ok ? 0 : -EIO)};
            }
            case StoreEffectKind::arm_retry:
                CHECK(op.delay_ms >= registry::kStoreRetryMsMin);
                CHECK(op.delay_ms <= registry::kStoreRetryMsMax);
                return {.kind = StoreEventKind::retry_due};
            case StoreEffectKind::close_temporary:
            case StoreEffectKind::report_durable:
            case StoreEffectKind::report_failed:
                break;
        }
        FAIL("an effect without an answer was waited for");
        return {};
    }

    StoreEvent open_outcome() {
        if (disk_.temporary_exists()) {
            return {.kind = StoreEventKind::opened, .result = -EEXIST};
        }
        if (choices_.choose(2) == 1) {
            return {.kind = StoreEventKind::opened, .result = -EMFILE};
        }
        disk_.create_temporary();
        return {.kind = StoreEventKind::opened, .result = 7, .bytes = image_.size()};
    }

    StoreEvent write_outcome(uint64_t offset) {
        const size_t left = image_.size() - offset;
        StoreEvent out{.kind = StoreEventKind::wrote, .result = static_cast<int64_t>(left)};
        switch (choices_.choose(5)) {
            case 1:
                out.result = 1;
                break;
            case 2:
                out.result = -EINTR;
                break;
            case 3:
                out.result = -ENOSPC;
                break;
            case 4:
                out.result = 0;
                break;
            default:
                break;
        }
        if (out.result > 0) {
            disk_.write(offset, image_.substr(offset, static_cast<size_t>(out.result)));
        }
        return out;
    }

    Choices& choices_;
    uint64_t changes_left_;
    Disk disk_;
    StoreState state_;
    uint64_t model_ = 0;
    uint64_t reported_ = 0;
    std::string image_;
    std::optional<StoreEffect> pending_;
};

// The effects of a step, in words.
std::string effects_of(const registry::StoreStep& out) {
    const std::map<StoreEffectKind, std::string> names = {
        {StoreEffectKind::open_temporary, "open"},
        {StoreEffectKind::write, "write"},
        {StoreEffectKind::fsync, "fsync"},
        {StoreEffectKind::rename, "rename"},
        {StoreEffectKind::fsync_directory, "fsync-directory"},
        {StoreEffectKind::close_temporary, "close"},
        {StoreEffectKind::unlink_temporary, "unlink"},
        {StoreEffectKind::report_durable, "durable"},
        {StoreEffectKind::report_failed, "failed"},
        {StoreEffectKind::arm_retry, "retry"}};
    std::string text;
    for (const StoreEffect& effect : out.effects) {
        text += (text.empty() ? "" : " ") + names.at(effect.kind);
        if (effect.kind == StoreEffectKind::write) {
            text += "@" + std::to_string(effect.offset);
        } else if (effect.version > 0) {
            text += ":" + std::to_string(effect.version);
        }
    }
    return text;
}

class Script {
  public:
    std::string feed(const StoreEvent& event) {
        const registry::StoreStep out = registry::step(state_, event);
        state_ = out.next;
        return effects_of(out);
    }

    std::string changed(uint64_t version) {
        return feed({.kind = StoreEventKind::changed, .version = version});
    }

    std::string done(StoreEventKind kind, int64_t result = 0) {
        return feed({.kind = kind, .result = result, .bytes = 10});
    }

  private:
    StoreState state_;
};

}  // namespace

TEST_CASE("a replacement goes open, write, fsync, rename, fsync of the directory, report") {
    Script s;
    CHECK(s.changed(1) == "open:1");
    CHECK(s.done(StoreEventKind::opened, 5) == "write@0");
    CHECK(s.done(StoreEventKind::wrote, 10) == "fsync");
    CHECK(s.done(StoreEventKind::synced) == "close rename");
    CHECK(s.done(StoreEventKind::renamed) == "fsync-directory");
    CHECK(s.done(StoreEventKind::directory_synced) == "durable:1");
}

TEST_CASE("changes that wait while one replacement is under way go out together in the next") {
    Script s;
    CHECK(s.changed(1) == "open:1");
    CHECK(s.changed(2) == "");
    CHECK(s.done(StoreEventKind::opened, 5) == "write@0");
    CHECK(s.changed(3) == "");
    CHECK(s.done(StoreEventKind::wrote, 10) == "fsync");
    CHECK(s.done(StoreEventKind::synced) == "close rename");
    CHECK(s.changed(7) == "");
    CHECK(s.done(StoreEventKind::renamed) == "fsync-directory");
    CHECK(s.done(StoreEventKind::directory_synced) == "durable:1 open:7");
}

TEST_CASE("a short write goes on where it stopped") {
    Script s;
    CHECK(s.changed(1) == "open:1");
    CHECK(s.done(StoreEventKind::opened, 5) == "write@0");
    CHECK(s.done(StoreEventKind::wrote, 4) == "write@4");
    CHECK(s.done(StoreEventKind::wrote, 5) == "write@9");
    CHECK(s.done(StoreEventKind::wrote, -EINTR) == "write@9");
    CHECK(s.done(StoreEventKind::wrote, 1) == "fsync");
}

TEST_CASE(
    "a failed fsync abandons the temporary and starts from a fresh one with the newest version") {
    Script s;
    CHECK(s.changed(1) == "open:1");
    CHECK(s.done(StoreEventKind::opened, 5) == "write@0");
    CHECK(s.done(StoreEventKind::wrote, 10) == "fsync");
    CHECK(s.done(StoreEventKind::synced, -EIO) == "close unlink");
    CHECK(s.changed(2) == "");
    CHECK(s.done(StoreEventKind::unlinked) == "failed:1 retry");
    CHECK(s.feed({.kind = StoreEventKind::retry_due}) == "open:2");
}

TEST_CASE("a write that fails, or writes nothing at all, abandons the temporary") {
    for (const int64_t result : {int64_t{-ENOSPC}, int64_t{0}}) {
        CAPTURE(result);
        Script s;
        CHECK(s.changed(1) == "open:1");
        CHECK(s.done(StoreEventKind::opened, 5) == "write@0");
        CHECK(s.done(StoreEventKind::wrote, 4) == "write@4");
        CHECK(s.done(StoreEventKind::wrote, result) == "close unlink");
        CHECK(s.done(StoreEventKind::unlinked) == "failed:1 retry");
    }
}

TEST_CASE("a leftover temporary is removed once, then it is a failure") {
    Script s;
    CHECK(s.changed(1) == "open:1");
    CHECK(s.done(StoreEventKind::opened, -EEXIST) == "unlink");
    CHECK(s.done(StoreEventKind::unlinked) == "open:1");
    CHECK(s.done(StoreEventKind::opened, -EEXIST) == "failed:1 retry");
}

TEST_CASE("retries wait longer and longer, up to a maximum, and start over after a success") {
    StoreState state;
    std::vector<uint32_t> delays;
    registry::StoreStep out =
        registry::step(state, {.kind = StoreEventKind::changed, .version = 1});
    for (int i = 0; i < 8; ++i) {
        out = registry::step(out.next, {.kind = StoreEventKind::opened, .result = -ENOSPC});
        CHECK(out.effects[0].sys == ENOSPC);
        delays.push_back(out.effects[1].delay_ms);
        out = registry::step(out.next, {.kind = StoreEventKind::retry_due});
    }
    CHECK(delays == std::vector<uint32_t>{50, 100, 200, 400, 800, 1000, 1000, 1000});
    out = registry::step(out.next, {.kind = StoreEventKind::opened, .result = 5, .bytes = 1});
    out = registry::step(out.next, {.kind = StoreEventKind::wrote, .result = 1});
    out = registry::step(out.next, {.kind = StoreEventKind::synced});
    out = registry::step(out.next, {.kind = StoreEventKind::renamed});
    out = registry::step(out.next, {.kind = StoreEventKind::directory_synced});
    CHECK(out.next.failures == 0);
}

TEST_CASE("every phase takes a change and exactly the answer that it waits for") {
    const std::map<StorePhase, std::optional<StoreEventKind>> awaited = {
        {StorePhase::idle, std::nullopt},
        {StorePhase::opening, StoreEventKind::opened},
        {StorePhase::clearing, StoreEventKind::unlinked},
        {StorePhase::writing, StoreEventKind::wrote},
        {StorePhase::syncing, StoreEventKind::synced},
        {StorePhase::renaming, StoreEventKind::renamed},
        {StorePhase::syncing_directory, StoreEventKind::directory_synced},
        {StorePhase::discarding, StoreEventKind::unlinked},
        {StorePhase::resting, StoreEventKind::retry_due}};
    REQUIRE(awaited.size() == registry::kStorePhases);
    for (const auto& [phase, answer] : awaited) {
        for (size_t e = 0; e < registry::kStoreEvents; ++e) {
            const auto kind = static_cast<StoreEventKind>(e);
            CAPTURE(registry::to_string(phase));
            CAPTURE(registry::to_string(kind));
            const bool possible = kind == StoreEventKind::changed || answer == kind;
            CHECK((registry::store_action(phase, kind) != StoreAction::impossible) == possible);
        }
    }
}

TEST_CASE("no sequence of failures and changes tears the file or loses a reported version") {
    Choices choices(11);
    size_t runs = 0;
    do {
        INFO(choices.describe());
        World(choices, 3).run();
        ++runs;
    } while (choices.next());
    CHECK(runs > 8'000);
}
