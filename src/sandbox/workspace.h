#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "sandbox/layout.h"
#include "wire/codes.h"

// Whether a directory may become a session's workspace: the session gets all of it, writable. The
// rule is made of places that a workspace must keep clear of; the directory is opened once, judged
// by its real path, and that very descriptor is what is bound, so that swapping a link afterwards
// exposes nothing.

namespace mosaic::sandbox {

// A place, and which relations to it make a workspace unsafe.
struct Place {
    std::string path;    // absolute
    std::string what;    // "the home directory", "the data root", ...
    bool equal = true;   // the workspace is the place
    bool holds = true;   // the place lies in the workspace
    bool inside = true;  // the workspace lies in the place

    bool operator==(const Place&) const = default;
};

// How `what` begins for the workspace of another instance.
constexpr const char* kWorkspaceOf = "the workspace of ";

struct OtherWorkspace {
    std::string instance;
    std::string path;
    bool shared = false;
};

// What the places are made of. Paths are absolute, links allowed; empty ones are skipped.
struct PlaceFacts {
    const Layout* layout = nullptr;
    std::string home;
    std::string config_home;                // $XDG_CONFIG_HOME where set
    std::vector<std::string> data_roots;    // the business's, and the directory of all of them
    std::vector<std::string> config_dirs;   // kept clear of in every direction
    std::vector<std::string> config_files;  // must not lie in the workspace
    std::vector<std::string> contracts;     // the same, and where links there lead
    std::string roles_dir;
    std::vector<std::string> plugin_dirs;
    std::vector<std::string> module_dirs;
    std::vector<std::string> programs;  // bound programs and our own: their directories count
    std::vector<OtherWorkspace> others;
    bool shared = false;  // this instance's sharedWorkspace
};

// The workspace of another instance as a place for one that is shared itself, or isn't. Pure.
[[nodiscard]] Place workspace_place(const OtherWorkspace& other, bool shared);

// Every place that the contract names, as written. Pure.
[[nodiscard]] std::vector<Place> forbidden_places(const PlaceFacts& facts);

// The same places by real path. What doesn't exist keeps its missing part as text, below the real
// path of what does: ~/.aws is out of bounds before it exists. Each link on the way to a place is
// in the list by its own path too, and each directory that ".." leads out of as one that no
// workspace may hold.
[[nodiscard]] std::vector<Place> resolve_places(const std::vector<Place>& places);

// Why the workspace at this real path is unsafe, naming both paths, on one line; empty: it is safe.
// Pure: places are compared as they are, so they must be resolved.
[[nodiscard]] std::string unsafe_reason(const std::string& workspace,
                                        const std::vector<Place>& places);

struct Workspace {
    UniqueFd fd;       // O_PATH | O_DIRECTORY | O_CLOEXEC, what is to be bound
    std::string path;  // its real path
    // Where the session has it: at its real path. One that isn't UTF-8 can stand in no JSON, so
    // there it is the path by which the operator names it, link or not. Always UTF-8 and tidy.
    std::string inside;
};

struct WorkspaceRefusal {
    Refusal code = Refusal::workspace_missing;  // or workspace_unsafe
    std::string reason;
};

// Opens and judges. `configured` may go through links. `places` are resolved ones. A reason is one
// line whatever the path holds. A path that goes through the workspace of another instance is
// unsafe wherever it ends, and so is one that goes through the workspace itself and back. A
// workspace with neither a real path nor a configured one (without
// "..") that is UTF-8 counts as unsafe.
[[nodiscard]] tl::expected<Workspace, WorkspaceRefusal> open_workspace(
    const std::string& configured, const std::vector<Place>& places);

}  // namespace mosaic::sandbox
