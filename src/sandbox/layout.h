#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sandbox/bind.h"

// How this machine's file system is laid out, as far as a sandbox depends on it: merged /usr or
// not, where the shell really lies, and files below /etc that are links to somewhere a session
// wouldn't see. Gathered once by system calls; everything made of it is pure.
//
// Each function takes the root to look in: "/" in the product, a directory made by a test there.
// Absolute links are then read relative to that root, and all paths in the answers are as seen from
// it.

namespace mosaic::sandbox {

struct Link {
    std::string path;    // where the link lies, its parents resolved
    std::string target;  // its text

    bool operator==(const Link&) const = default;
};

// A path followed to its end, link by link.
struct Chain {
    std::vector<Link> links;        // each link that was met, on the way or at the end, in order
    std::vector<std::string> left;  // each directory that ".." led out of, its real path
    std::string real;               // the end; empty when it isn't reached
    std::string problem;            // why it isn't: "/run/x does not exist"; empty when it is

    [[nodiscard]] bool reached() const { return problem.empty(); }
};

// At most 40 links, as the kernel allows.
[[nodiscard]] Chain follow(const std::string& root, const std::string& path);

enum class EntryKind {
    absent,
    link,       // reproduced as it is
    directory,  // bound read-only
};

struct Entry {
    std::string path;  // "/bin"
    EntryKind kind = EntryKind::absent;
    std::string target;  // a link's text

    bool operator==(const Entry&) const = default;
};

struct Layout {
    // /usr, /etc, /bin, /lib, /lib32, /lib64, /libx32, /sbin, and /nix/store or /gnu/store where
    // the shell lies in it.
    std::vector<Entry> entries;
    // What makes /etc/resolv.conf and the CA bundles readable where they lead out of the entries:
    // each link outside them reproduced, and the file at the end at its own path.
    std::vector<Bind> outside;
    std::vector<std::string> warnings;  // dangling links among these files
    // What is missing for any session to start ("there is no /bin/sh"); empty: nothing. It is the
    // reason of sandbox-unavailable.
    std::string missing;

    bool operator==(const Layout&) const = default;

    // Whether the entries alone bring this path (tidy, absolute, parents resolved) into a session.
    [[nodiscard]] bool brings(std::string_view path) const;
};

// Fails only when `root` itself can't be read.
[[nodiscard]] Result<Layout> read_layout(const std::string& root = "/");

// The binds that make the file or directory at `path` readable inside at that very path, its links
// reproduced and its end bound read-only at its real path. What the layout's entries already bring
// is left out. Code::missing says where the chain breaks, Code::invalid that the path isn't
// absolute.
[[nodiscard]] Result<std::vector<Bind>> mounts_for(const Layout& layout,
                                                   const std::string& path,
                                                   const std::string& reason,
                                                   const std::string& root = "/");

}  // namespace mosaic::sandbox
