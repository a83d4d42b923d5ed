#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "wire/json.h"
#include "wire/messages.h"

// bus-host/sessions.json: which sessions run, for the next host and for commands that work without
// one.
//
//     {"sessionsVersion":1,"bootId":"…","sessions":[{entry}, …]}
//
// An entry stands for a live process, so a file that can't be read exactly is never taken for an
// empty one: reading fails with the file's name, the byte where the parser knows it, and the JSON
// pointer.

namespace mosaic::registry {

constexpr int64_t kSessionsVersion = 1;

// Past it a file isn't one of ours: kRunsMax entries with the longest paths stay below.
constexpr uint64_t kSessionsFileBytesMax = uint64_t{32} * 1024 * 1024;

struct SessionEntry {
    std::string business;
    Seat seat;
    std::string run;
    std::string run_dir;            // absolute
    wire::ProcessIdentity process;  // pid and startTime are the outer bwrap's
    std::string launched_by;        // empty for a warm seat
    std::string harness;
    std::string provider;
    std::string model;
    std::string at;     // ISO 8601; empty for a warm seat
    bool warm = false;  // started and waiting for its capability; holds no seat

    bool operator==(const SessionEntry&) const = default;

    // The entry as an object, with the keys of the file.
    [[nodiscard]] json::Value to_value() const;
};

struct SessionsFile {
    std::string boot_id;  // of the boot in which the pids below mean something
    std::vector<SessionEntry> entries;

    bool operator==(const SessionsFile&) const = default;
};

// Reads a whole document. Keys we don't know are ignored, at the top and in entries; those we know
// are checked. Also errors: another version, an entry of another business than `business` (empty:
// any one, the same in all entries), a run id twice, a seat twice (warm entries hold none), a warm
// entry with a thread. `path` is for messages only.
[[nodiscard]] Result<SessionsFile> parse_sessions(std::string_view text,
                                                  const std::string& path,
                                                  const std::string& business);

// The file's text, with a final newline.
[[nodiscard]] std::string dump_sessions(const SessionsFile& file);

// The same in two steps, for a host with many runs: an entry doesn't change, so its text is made
// once and kept beside the run. assemble_sessions(boot_id, {dump_entry(a), dump_entry(b)}) equals
// dump_sessions of the same file.
[[nodiscard]] std::string dump_entry(const SessionEntry& entry);
[[nodiscard]] std::string assemble_sessions(std::string_view boot_id,
                                            const std::vector<std::string_view>& entries);

}  // namespace mosaic::registry
