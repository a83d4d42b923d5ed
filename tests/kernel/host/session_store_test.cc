// sessions.json as the running host keeps it, on the real ring. After every tick the file is read
// as the next host would read it: at any moment it is the old or the new one.

#include "host/session_store.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "registry/layout.h"
#include "rig.h"

using namespace mosaic;
using namespace mosaic::test;
using host::SessionStore;
using launch::EventKind;
using registry::SessionEntry;

namespace {

constexpr const char* kFile = "sessions.json";
constexpr const char* kBoot = "0a0b0c0d-0000-0000-0000-000000000000";

std::string run_name(uint32_t number) {
    std::string digits = std::to_string(number);
    return "r" + std::string(12 - digits.size(), '0') + digits;
}

SessionEntry entry(uint32_t number) {
    SessionEntry e;
    e.business = "acme";
    e.seat = {"coder" + std::to_string(number), ""};
    e.run = run_name(number);
    e.run_dir = "/var/lib/mosaic/launches/acme/" + e.run;
    e.process = {1000 + number, "111", 2000 + number, "222"};
    e.launched_by = "pm";
    e.harness = "script";
    e.provider = "none";
    e.model = "m";
    e.at = "2026-01-31T12:34:56.789Z";
    return e;
}

SlotRef slot(uint32_t number) {
    return {number, 1};
}

// The runs that the next host would find. The file must be there and exact.
std::set<std::string> runs_on_disk(int directory) {
    const auto text = content(directory, kFile);
    REQUIRE(text.has_value());
    const auto parsed = registry::parse_sessions(*text, kFile, "acme");
    if (!parsed) {
        FAIL(parsed.error().text << ": " << *text);
    }
    CHECK(parsed->boot_id == kBoot);
    std::set<std::string> runs;
    for (const SessionEntry& e : parsed->entries) {
        runs.insert(e.run);
    }
    return runs;
}

struct Storing : Rig {
    explicit Storing(int directory_fd) : directory(directory_fd) {
        if (ok()) {
            put(directory, kFile, registry::dump_sessions({kBoot, {}}));
            store = std::make_unique<SessionStore>(loop, directory, kBoot);
            seen.insert(std::set<std::string>());
        }
    }

    void settle() {
        run_until([&] { return store->quiet(); });
    }

    void after_tick() override { seen.insert(runs_on_disk(directory)); }

    int directory;
    std::set<std::set<std::string>> seen;  // every state that a crash could have left
};

// Whether the file's bytes have a place on the disk yet; nothing where the file system doesn't
// tell.
std::optional<bool> has_place(int directory, const std::string& name) {
    const UniqueFd file(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(file.valid());
    alignas(fiemap) std::array<char, sizeof(fiemap) + sizeof(fiemap_extent)> room{};
    auto* const map = reinterpret_cast<fiemap*>(room.data());
    map->fm_length = FIEMAP_MAX_OFFSET;
    map->fm_extent_count = 1;
    if (::ioctl(file.get(), FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0) {
        return std::nullopt;
    }
    return (map->fm_extents[0].fe_flags & FIEMAP_EXTENT_DELALLOC) == 0;
}

// How often the file was replaced since `watch` was made.
class Replacements {
  public:
    explicit Replacements(int directory) : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
        const std::string path = "/proc/self/fd/" + std::to_string(directory);
        REQUIRE(::inotify_add_watch(inotify_.get(), path.c_str(), IN_MOVED_TO) >= 0);
    }

    size_t count() {
        alignas(inotify_event) char buffer[65536];
        for (;;) {
            const ssize_t n = ::read(inotify_.get(), buffer, sizeof(buffer));
            if (n <= 0) {
                return count_;
            }
            for (ssize_t at = 0; at < n;) {
                inotify_event event{};
                std::copy_n(buffer + at, sizeof(event), reinterpret_cast<char*>(&event));
                count_ += 1;
                at += static_cast<ssize_t>(sizeof(event) + event.len);
            }
        }
    }

  private:
    UniqueFd inotify_;
    size_t count_ = 0;
};

}  // namespace

TEST_CASE("an entry is on disk when its waiter is told, and gone when the removal is") {
    const Scratch scratch;
    Storing rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    CHECK(rig.store->quiet());
    rig.store->add(entry(1), slot(1));
    CHECK_FALSE(rig.store->quiet());
    CHECK(rig.store->size() == 1);
    rig.run_until([&] { return rig.count(slot(1), EventKind::recorded) == 1; });
    CHECK(runs_on_disk(scratch.fd()) == std::set<std::string>{run_name(1)});
    CHECK(mode_of(scratch.fd(), kFile) == 0600);
    CHECK_FALSE(mode_of(scratch.fd(), "sessions.json.tmp"));
    rig.settle();

    rig.store->remove(run_name(1), slot(1));
    rig.run_until([&] { return rig.count(slot(1), EventKind::removed) == 1; });
    CHECK(runs_on_disk(scratch.fd()).empty());
    rig.settle();
    CHECK(rig.run_events.size() == 2);
    CHECK(rig.store->size() == 0);
}

TEST_CASE("an entry's bytes are on the disk when its waiter is told") {
    const Scratch scratch;
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    put(scratch.fd(), "written only", std::string(100, 'x'));
    if (has_place(scratch.fd(), "written only").value_or(true)) {
        MESSAGE("skipped: this file system doesn't tell what is on the disk");
        return;
    }
    // There is no older file: a rename over one makes some file systems write by themselves.
    rig.store = std::make_unique<SessionStore>(rig.loop, scratch.fd(), kBoot);
    rig.store->add(entry(1), slot(1));
    rig.run_until([&] { return rig.count(slot(1), EventKind::recorded) == 1; });
    CHECK(has_place(scratch.fd(), kFile) == true);
    rig.run_until([&] { return rig.store->quiet(); });
}

TEST_CASE("an entry is told when its directory is on the disk too, and not without") {
    const Scratch scratch;
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    // Names can be made through it, and fsync(2) refuses it.
    const UniqueFd only_path(::open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    rig.store = std::make_unique<SessionStore>(rig.loop, only_path.get(), kBoot);
    rig.store->add(entry(1), slot(1));
    rig.run_until([&] { return !rig.run_events.empty(); });
    CHECK(rig.count(slot(1), EventKind::record_failed) == 1);
    CHECK(runs_on_disk(scratch.fd()).size() == 1);
    CHECK_FALSE(rig.store->quiet());
}

TEST_CASE("all changes that wait while one replacement is under way go out in the next") {
    const Scratch scratch;
    Storing rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    Replacements replacements(scratch.fd());
    constexpr uint32_t kMany = 50;
    for (uint32_t i = 0; i < kMany; ++i) {
        rig.store->add(entry(i), slot(i));
    }
    rig.store->remove(run_name(0), slot(0));
    rig.run_until([&] {
        replacements.count();  // read at once: inotify makes one event of two that look the same
        return rig.store->quiet();
    });
    CHECK(replacements.count() == 2);
    CHECK(rig.run_events.size() == kMany + 1);
    for (uint32_t i = 0; i < kMany; ++i) {
        CHECK(rig.count(slot(i), EventKind::recorded) == 1);
    }
    CHECK(rig.count(slot(0), EventKind::removed) == 1);
    // The first was alone on its way; the others came together, in their order.
    CHECK(rig.run_events.front().run == slot(0));
    for (uint32_t i = 1; i < kMany; ++i) {
        CHECK(rig.run_events[i].run == slot(i));
    }
    CHECK(runs_on_disk(scratch.fd()).size() == kMany - 1);
    // Nothing, the first, or the end: no other state was ever on disk.
    CHECK(rig.seen.size() <= 3);
}

TEST_CASE("entries of a dead host stay until each is removed") {
    const Scratch scratch;
    Storing rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    rig.store->adopt({entry(7), entry(8)});
    CHECK(rig.store->size() == 2);
    rig.store->add(entry(1), slot(1));
    rig.settle();
    CHECK(runs_on_disk(scratch.fd()).size() == 3);
    rig.store->remove_leftover(run_name(7), 4);
    rig.settle();
    CHECK(runs_on_disk(scratch.fd()) == std::set<std::string>{run_name(1), run_name(8)});
    REQUIRE(rig.leftover_events.size() == 1);
    CHECK(rig.leftover_events[0].leftover == 4);
    CHECK(rig.leftover_events[0].event == launch::LeftoverEvent::removed);
}

TEST_CASE("the temporary file of a host that died is replaced, not read") {
    const Scratch scratch;
    Storing rig(scratch.fd());
    if (!rig.ok()) {
        return;
    }
    put(scratch.fd(), "sessions.json.tmp", "half a fi");
    rig.store->add(entry(1), slot(1));
    rig.settle();
    CHECK(rig.count(slot(1), EventKind::recorded) == 1);
    CHECK(runs_on_disk(scratch.fd()).size() == 1);
    CHECK_FALSE(mode_of(scratch.fd(), "sessions.json.tmp"));
}

TEST_CASE("a full disk fails what is added; a removal waits until there is space") {
    const SmallDisk disk(32);
    if (!disk.valid()) {
        return;
    }
    Storing rig(disk.fd());
    if (!rig.ok()) {
        return;
    }
    const StderrCapture said;
    for (uint32_t i = 0; i < 30; ++i) {
        rig.store->add(entry(i), slot(i));
    }
    rig.settle();
    const auto before = runs_on_disk(disk.fd());
    REQUIRE(before.size() == 30);
    rig.run_events.clear();

    disk.leave_free(0);
    rig.store->add(entry(90), slot(90));
    rig.store->remove(run_name(0), slot(0));
    rig.store->add(entry(91), slot(91));
    rig.run_until([&] {
        return rig.count(slot(90), EventKind::record_failed) +
                   rig.count(slot(91), EventKind::record_failed) ==
               2;
    });
    // Several attempts in vain change nothing and are said once.
    for (int i = 0; i < 3; ++i) {
        rig.pass(seconds(1));
        rig.run_until([&] { return rig.loop.ring->in_flight() == 0; });
    }
    CHECK(rig.run_events.size() == 2);
    CHECK(rig.count(slot(0), EventKind::removed) == 0);
    CHECK(runs_on_disk(disk.fd()) == before);
    CHECK(times(said.text(), "sessions.json can't be written (No space left on device)") == 1);
    CHECK_FALSE(rig.store->quiet());

    disk.leave_free(32);
    rig.pass(seconds(1));
    rig.run_until([&] { return rig.count(slot(0), EventKind::removed) == 1; });
    CHECK(times(said.text(), "sessions.json is written again") == 1);
    // The entries of the failed launches stay until their processes are gone and they are removed.
    auto now = before;
    now.erase(run_name(0));
    now.insert({run_name(90), run_name(91)});
    CHECK(runs_on_disk(disk.fd()) == now);
    rig.store->remove(run_name(90), slot(90));
    rig.store->remove(run_name(91), slot(91));
    rig.settle();
    now.erase(run_name(90));
    now.erase(run_name(91));
    CHECK(runs_on_disk(disk.fd()) == now);
    CHECK_FALSE(mode_of(disk.fd(), "sessions.json.tmp"));
}

TEST_CASE("whichever page of the new file no longer fits, the old one is whole") {
    const SmallDisk disk(64);
    if (!disk.valid()) {
        return;
    }
    Storing rig(disk.fd());
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    std::vector<SessionEntry> many;
    for (uint32_t i = 0; i < 60; ++i) {
        many.push_back(entry(i));
    }
    rig.store->adopt(many);
    rig.store->add(entry(60), slot(60));
    rig.settle();
    const size_t pages = content(disk.fd(), kFile)->size() / SmallDisk::kPage + 1;
    REQUIRE(pages > 3);
    std::set<std::string> present = runs_on_disk(disk.fd());
    for (uint32_t free = 0; free <= pages + 1; ++free) {
        CAPTURE(free);
        disk.leave_free(free);
        rig.seen.clear();
        const uint32_t number = 100 + free;
        const std::set<std::string> before = present;
        rig.store->add(entry(number), slot(number));
        rig.run_until([&] {
            return rig.count(slot(number), EventKind::record_failed) +
                       rig.count(slot(number), EventKind::recorded) ==
                   1;
        });
        present.insert(run_name(number));
        for (const auto& state : rig.seen) {
            const bool old_or_new = state == before || state == present;
            CHECK(old_or_new);
        }
        disk.leave_free(64);
        rig.pass(seconds(1));
        rig.settle();
        CHECK(runs_on_disk(disk.fd()) == present);
    }
    CHECK(rig.count(slot(100), EventKind::record_failed) == 1);
    CHECK(rig.count(slot(static_cast<uint32_t>(100 + pages + 1)), EventKind::recorded) == 1);
}

TEST_CASE("a rename that fails leaves no temporary file, and is tried again") {
    const Scratch scratch;
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const StderrCapture quiet;
    // A directory in the file's place can't be renamed over.
    REQUIRE(::mkdirat(scratch.fd(), kFile, 0700) == 0);
    rig.store = std::make_unique<SessionStore>(rig.loop, scratch.fd(), kBoot);
    rig.store->add(entry(1), slot(1));
    rig.run_until([&] { return rig.count(slot(1), EventKind::record_failed) == 1; });
    CHECK_FALSE(mode_of(scratch.fd(), "sessions.json.tmp"));
    rig.store->remove(run_name(1), slot(1));
    REQUIRE(::unlinkat(scratch.fd(), kFile, AT_REMOVEDIR) == 0);
    rig.pass(seconds(1));
    rig.run_until([&] { return rig.count(slot(1), EventKind::removed) == 1; });
    CHECK(runs_on_disk(scratch.fd()).empty());
}
