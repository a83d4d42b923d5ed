#include "sim/disk.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "registry/sessions.h"
#include "sim/world.h"

namespace mosaic::sim {
namespace {

constexpr size_t kFile = 0;
constexpr size_t kTemporary = 1;
// Of the launch log's lines those that a power loss may take.
constexpr size_t kUnsyncedLines = 8;
constexpr size_t kLinesKept = 4096;

}  // namespace

std::string run_name(uint32_t run) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out = "r000000000000";
    for (size_t i = out.size() - 1; run != 0; --i, run >>= 4U) {
        out[i] = kDigits[run & 15U];
    }
    return out;
}

std::string seat_name(uint32_t seat) {
    return "s" + std::to_string(seat);
}

uint32_t seat_number(const Seat& seat) {
    return seat.instance.empty() ? UINT32_MAX
                                 : static_cast<uint32_t>(std::stoul(seat.instance.substr(1)));
}

uint32_t run_number(const std::string& name) {
    uint32_t out = 0;
    std::from_chars(name.data() + 1, name.data() + name.size(), out, 16);
    return out;
}

std::string run_path(uint32_t run) {
    return std::string(kRunsPath) + "/" + run_name(run);
}

std::vector<uint32_t> runs_in(const std::string& text) {
    // The entries are of a fixed shape that this program wrote, so a search finds each name.
    constexpr std::string_view kKey = "\"run\":\"";
    std::vector<uint32_t> runs;
    for (size_t at = text.find(kKey); at != std::string::npos; at = text.find(kKey, at + 1)) {
        runs.push_back(run_number(text.substr(at + kKey.size(), 13)));
    }
    std::sort(runs.begin(), runs.end());
    return runs;
}

Disk::Disk(World& world) : world_(world) {
    auto file = std::make_shared<Inode>();
    file->seen = registry::dump_sessions({"boot-1", {}});
    file->synced = file->seen;
    seen_[kFile] = file;
    synced_ = seen_;
}

bool Disk::full() const {
    return world_.now < full_until;
}

void Disk::changed() {
    unsynced_.push_back(seen_);
}

int64_t Disk::open_temporary(bool in_place) {
    if (full() || world_.fault(world_.faults.write_fails)) {
        return -ENOSPC;
    }
    if (in_place) {
        open_ = seen_[kFile];
        open_->seen.clear();
        open_->runs.clear();
        return 0;
    }
    if (seen_[kTemporary]) {
        return -EEXIST;
    }
    seen_[kTemporary] = std::make_shared<Inode>();
    open_ = seen_[kTemporary];
    changed();
    return 0;
}

int64_t Disk::write(std::string_view bytes, bool again_from_start) {
    if (full() || world_.fault(world_.faults.write_fails)) {
        return -ENOSPC;
    }
    if (world_.fault(world_.faults.write_short) && bytes.size() > 1) {
        bytes = bytes.substr(0, 1 + world_.chance.below(static_cast<uint32_t>(bytes.size() - 1)));
    }
    if (again_from_start) {
        open_->seen.clear();
    }
    open_->seen += bytes;
    return static_cast<int64_t>(bytes.size());
}

int64_t Disk::sync_file() {
    if (open_->lost_pages) {
        return 0;
    }
    if (full() || world_.fault(world_.faults.fsync_fails)) {
        open_->lost_pages = true;
        return -EIO;
    }
    open_->synced = open_->seen;
    return 0;
}

int64_t Disk::rename() {
    if (full() || world_.fault(world_.faults.rename_fails)) {
        return -ENOSPC;
    }
    const std::shared_ptr<Inode> before = seen_[kFile];
    if (seen_[kTemporary]) {
        seen_[kFile] = seen_[kTemporary];
        seen_[kTemporary].reset();
        seen_[kFile]->runs = runs_in(seen_[kFile]->seen);
        changed();
    }
    file_changes(*before, *seen_[kFile]);
    return 0;
}

int64_t Disk::rewritten() {
    const Inode before = *seen_[kFile];
    seen_[kFile]->runs = runs_in(seen_[kFile]->seen);
    file_changes(before, *seen_[kFile]);
    return 0;
}

int64_t Disk::sync_directory() {
    return full() ? -EIO : sync_left();
}

int64_t Disk::sync_left() {
    if (world_.fault(world_.faults.fsync_fails)) {
        return -EIO;
    }
    synced_ = seen_;
    unsynced_.clear();
    return 0;
}

bool Disk::settled() const {
    return unsynced_.empty() && synced_[kFile] == seen_[kFile] && seen_[kFile]->whole();
}

int64_t Disk::unlink_temporary() {
    open_.reset();
    if (!seen_[kTemporary]) {
        return -ENOENT;
    }
    seen_[kTemporary].reset();
    changed();
    return 0;
}

// The file that the next host would read is another one.
void Disk::file_changes(const Inode& before, const Inode& after) {
    for (const uint32_t run : before.runs) {
        if (!std::binary_search(after.runs.begin(), after.runs.end(), run)) {
            world_.truth.entry_leaves(run);
            world_.truth[run].in_file = false;
        }
    }
    for (const uint32_t run : after.runs) {
        world_.truth[run].in_file = true;
    }
}

const std::string& Disk::sessions() const {
    return seen_[kFile]->seen;
}

bool Disk::surely_has(uint32_t run) const {
    const auto has = [&](const Directory& directory) {
        const Inode& file = *directory[kFile];
        return file.whole() && std::binary_search(file.runs.begin(), file.runs.end(), run);
    };
    return has(synced_) && std::all_of(unsynced_.begin(), unsynced_.end(), has);
}

bool Disk::surely_lacks(uint32_t run) const {
    const auto lacks = [&](const Directory& directory) {
        const Inode& file = *directory[kFile];
        return file.whole() && !std::binary_search(file.runs.begin(), file.runs.end(), run);
    };
    return lacks(synced_) && std::all_of(unsynced_.begin(), unsynced_.end(), lacks);
}

void Disk::append_end_line(uint32_t run) {
    // A log that couldn't be written for long has lines of runs that are long over.
    if (world_.truth.remembers(run) && ++world_.truth[run].end_lines > 1) {
        world_.fail("one end line a run", run_name(run) + " has two");
    }
    end_lines_.push_back(run);
    if (end_lines_.size() > kLinesKept) {
        end_lines_.pop_front();
    }
}

bool Disk::has_end_line(uint32_t run) const {
    return std::find(end_lines_.rbegin(), end_lines_.rend(), run) != end_lines_.rend();
}

void Disk::power_loss() {
    Directory left = synced_;
    if (!unsynced_.empty()) {
        const uint32_t kept = world_.chance.below(static_cast<uint32_t>(unsynced_.size()) + 1);
        if (kept > 0) {
            left = unsynced_[kept - 1];
        }
    }
    const std::shared_ptr<Inode> before = seen_[kFile];
    for (std::shared_ptr<Inode>& inode : left) {
        if (inode && !inode->whole()) {
            // The last state that is known to be there, or a part of what came after it.
            auto torn = std::make_shared<Inode>();
            const auto part = static_cast<uint32_t>(inode->seen.size() + 1);
            torn->seen = world_.chance.below(2) == 0
                             ? inode->synced
                             : inode->seen.substr(0, world_.chance.below(part));
            torn->synced = torn->seen;
            torn->runs = runs_in(torn->seen);
            inode = torn;
        }
    }
    open_.reset();
    seen_ = left;
    synced_ = left;
    unsynced_.clear();
    for (const uint32_t run : before->runs) {
        world_.truth[run].in_file = false;
    }
    for (const uint32_t run : seen_[kFile]->runs) {
        world_.truth[run].in_file = true;
    }
    uint32_t lost = world_.chance.below(kUnsyncedLines);
    for (; lost > 0 && !end_lines_.empty(); --lost) {
        if (world_.truth.remembers(end_lines_.back())) {
            --world_.truth[end_lines_.back()].end_lines;
        }
        end_lines_.pop_back();
    }
}

}  // namespace mosaic::sim
