#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"

namespace mosaic::sim {

class World;

// The host's disk. What a process writes is seen by every process at once and survives only that; a
// power loss keeps what was synced, and of the rest whatever the disk likes. Directory changes that
// aren't synced survive as a prefix of their order.
class Disk {
  public:
    explicit Disk(World& world);

    // ---- bus-host: sessions.json and its temporary. Results as of completions. ----
    [[nodiscard]] int64_t open_temporary(bool in_place);
    [[nodiscard]] int64_t write(std::string_view bytes, bool again_from_start);
    [[nodiscard]] int64_t sync_file();
    [[nodiscard]] int64_t rename();
    // The file was written in place: what a mutation does.
    [[nodiscard]] int64_t rewritten();
    [[nodiscard]] int64_t sync_directory();
    [[nodiscard]] int64_t unlink_temporary();

    // What a starting host does before it reads: the names are synced. Needs no space.
    [[nodiscard]] int64_t sync_left();
    // A power loss at this moment leaves what processes see.
    [[nodiscard]] bool settled() const;
    // What a host that starts now reads. Never missing: made empty at the first start.
    [[nodiscard]] const std::string& sessions() const;
    // Whether the file that a power loss at this moment leaves, in every way it may, has the run.
    [[nodiscard]] bool surely_has(uint32_t run) const;
    [[nodiscard]] bool surely_lacks(uint32_t run) const;

    // ---- the launch log: which `end` lines are in the file ----
    void append_end_line(uint32_t run);
    [[nodiscard]] bool has_end_line(uint32_t run) const;

    void power_loss();

    // Full until then.
    int64_t full_until = 0;
    // Run directories, by run.
    std::set<uint32_t> directories;

  private:
    struct Inode {
        std::string seen;            // by processes
        std::string synced;          // what survives
        std::vector<uint32_t> runs;  // the entries of `seen`
        bool lost_pages = false;     // an fsync failed: later ones succeed and do nothing

        [[nodiscard]] bool whole() const { return seen.size() == synced.size() && seen == synced; }
    };

    // sessions.json and the temporary.
    using Directory = std::array<std::shared_ptr<Inode>, 2>;

    [[nodiscard]] bool full() const;
    void changed();
    void file_changes(const Inode& before, const Inode& after);

    World& world_;
    Directory seen_;
    Directory synced_;
    std::deque<Directory> unsynced_;  // as of after each change since
    std::shared_ptr<Inode> open_;
    std::deque<uint32_t> end_lines_;  // the newest
};

// The runs that a text of sessions.json names, ascending.
[[nodiscard]] std::vector<uint32_t> runs_in(const std::string& text);

[[nodiscard]] std::string run_name(uint32_t run);
[[nodiscard]] uint32_t run_number(const std::string& name);
[[nodiscard]] std::string seat_name(uint32_t seat);
// UINT32_MAX for a leftover of which only a process is known.
[[nodiscard]] uint32_t seat_number(const Seat& seat);
[[nodiscard]] std::string run_path(uint32_t run);

constexpr const char* kRunsPath = "/data/launches/acme";

}  // namespace mosaic::sim
