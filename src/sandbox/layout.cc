#include "sandbox/layout.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

namespace mosaic::sandbox {
namespace {

constexpr size_t kLinksMax = 40;  // path_resolution(7)

constexpr std::array<const char*, 2> kRequired = {"/usr", "/etc"};
constexpr std::array<const char*, 6> kOptional = {
    "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"};
// Where systems without programs in /usr keep them all.
constexpr std::array<const char*, 2> kStores = {"/nix/store", "/gnu/store"};

struct HostFile {
    const char* path;
    const char* reason;
};

// Files of /etc that are often links to elsewhere and without which a session can't reach anything.
constexpr std::array<HostFile, 4> kHostFiles = {{
    {"/etc/resolv.conf", "name servers: /etc/resolv.conf leads here"},
    {"/etc/ssl/certs/ca-certificates.crt",
     "certificates: /etc/ssl/certs/ca-certificates.crt leads here"},
    {"/etc/pki/tls/certs/ca-bundle.crt",
     "certificates: /etc/pki/tls/certs/ca-bundle.crt leads here"},
    {"/etc/ssl/cert.pem", "certificates: /etc/ssl/cert.pem leads here"},
}};

std::string in_root(const std::string& root, const std::string& path) {
    return root == "/" ? path : root + path;
}

// The segments of a path, last first, so that the next one to walk is at the back.
void push_segments(std::vector<std::string>& pending, std::string_view path) {
    size_t end = path.size();
    while (end > 0) {
        const size_t slash = path.rfind('/', end - 1);
        const size_t start = slash == std::string_view::npos ? 0 : slash + 1;
        if (start < end) {
            pending.emplace_back(path.substr(start, end - start));
        }
        if (slash == std::string_view::npos) {
            break;
        }
        end = slash;
    }
}

std::string parent_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

Result<std::string> read_link(const std::string& path) {
    std::string text(PATH_MAX, '\0');
    const ssize_t n = ::readlink(path.c_str(), text.data(), text.size());
    if (n < 0) {
        return fail_sys(errno, path);
    }
    text.resize(static_cast<size_t>(n));
    return text;
}

std::string why_not(const std::string& path, int sys) {
    return sys == ENOENT ? path + " does not exist" : path + ": " + errno_text(sys);
}

Entry read_entry(const std::string& root, const std::string& path) {
    Entry entry{path, EntryKind::absent, ""};

    struct stat facts {};

    const std::string real = in_root(root, path);
    if (::lstat(real.c_str(), &facts) != 0) {
        return entry;
    }
    if (S_ISLNK(facts.st_mode)) {
        if (auto target = read_link(real)) {
            entry.kind = EntryKind::link;
            entry.target = std::move(*target);
        }
    } else if (S_ISDIR(facts.st_mode)) {
        entry.kind = EntryKind::directory;
    }
    return entry;
}

// /usr and /etc are bound whatever they are on the host, even as links, for programs expect them to
// be directories.
bool is_directory(const std::string& root, const std::string& path) {
    const Chain chain = follow(root, path);

    struct stat facts {};

    return chain.reached() && ::lstat(in_root(root, chain.real).c_str(), &facts) == 0 &&
           S_ISDIR(facts.st_mode);
}

// The rest of a link chain that the entries don't bring.
std::vector<Bind> binds_of(const Layout& layout, const Chain& chain, const std::string& reason) {
    std::vector<Bind> out;
    for (const Link& link : chain.links) {
        if (!layout.brings(link.path)) {
            out.push_back(Bind{.kind = BindKind::symlink,
                               .source = link.target,
                               .dest = link.path,
                               .reason = reason});
        }
    }
    if (!layout.brings(chain.real)) {
        out.push_back(Bind{.kind = BindKind::read_only,
                           .source = chain.real,
                           .dest = chain.real,
                           .reason = reason});
    }
    return out;
}

void find_shell(Layout& layout, const std::string& root) {
    const Chain shell = follow(root, "/bin/sh");
    if (!shell.reached()) {
        layout.missing = "there is no /bin/sh: " + shell.problem;
        return;
    }
    for (const std::string store : kStores) {
        if (lies_in(shell.real, store)) {
            layout.entries.push_back(Entry{store, EntryKind::directory, ""});
        }
    }
    std::vector<std::string> way{shell.real};
    for (const Link& link : shell.links) {
        way.push_back(link.path);
    }
    const auto outside = std::find_if(
        way.begin(), way.end(), [&](const std::string& path) { return !layout.brings(path); });
    if (outside != way.end()) {
        layout.missing = "/bin/sh leads to " + *outside + ", which no sandbox gets";
    }
}

void find_host_files(Layout& layout, const std::string& root) {
    for (const HostFile& file : kHostFiles) {
        const Chain chain = follow(root, file.path);
        if (!chain.reached()) {
            // A file that simply isn't there is how most machines are; a link to nothing is a fault
            // that shows up later as an unreachable network.
            if (!chain.links.empty()) {
                layout.warnings.push_back(std::string(file.path) +
                                          " leads to nothing: " + chain.problem);
            }
            continue;
        }
        for (Bind& bind : binds_of(layout, chain, file.reason)) {
            const bool known =
                std::any_of(layout.outside.begin(), layout.outside.end(), [&](const Bind& other) {
                    return other.dest == bind.dest;
                });
            if (!known) {
                layout.outside.push_back(std::move(bind));
            }
        }
    }
}

}  // namespace

Chain follow(const std::string& root, const std::string& path) {
    Chain chain;
    std::vector<std::string> pending;
    push_segments(pending, path);
    std::string at;  // resolved so far; empty is the root
    while (!pending.empty()) {
        const std::string segment = std::move(pending.back());
        pending.pop_back();
        if (segment == ".") {
            continue;
        }
        if (segment == "..") {
            chain.left.push_back(at.empty() ? "/" : at);
            at = parent_of(at);
            continue;
        }
        std::string next = at;
        next += '/';
        next += segment;

        struct stat facts {};

        if (::lstat(in_root(root, next).c_str(), &facts) != 0) {
            chain.problem = why_not(next, errno);
            return chain;
        }
        if (!S_ISLNK(facts.st_mode)) {
            at = std::move(next);
            continue;
        }
        auto target = read_link(in_root(root, next));
        if (!target) {
            chain.problem = target.error().text;
            return chain;
        }
        if (chain.links.size() == kLinksMax) {
            chain.problem = why_not(path, ELOOP);
            return chain;
        }
        if (target->starts_with('/')) {
            at.clear();
        }
        push_segments(pending, *target);
        // A link that is passed twice (one file's path may cross /var/run and come back) is one
        // link.
        const Link link{next, std::move(*target)};
        chain.links.push_back(link);
    }
    chain.real = at.empty() ? "/" : at;
    return chain;
}

bool Layout::brings(std::string_view path) const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
        switch (entry.kind) {
            case EntryKind::absent:
                return false;
            case EntryKind::link:
                return path == entry.path;
            case EntryKind::directory:
                return lies_in(path, entry.path);
        }
        return false;
    });
}

Result<Layout> read_layout(const std::string& root) {
    struct stat facts {};

    if (::stat(root.c_str(), &facts) != 0) {
        return fail_sys(errno, root);
    }
    Layout layout;
    for (const char* path : kRequired) {
        if (is_directory(root, path)) {
            layout.entries.push_back(Entry{path, EntryKind::directory, ""});
        } else if (layout.missing.empty()) {
            layout.missing = std::string("there is no ") + path;
        }
    }
    for (const char* path : kOptional) {
        layout.entries.push_back(read_entry(root, path));
    }
    if (layout.missing.empty()) {
        find_shell(layout, root);
    }
    find_host_files(layout, root);
    return layout;
}

Result<std::vector<Bind>> mounts_for(const Layout& layout,
                                     const std::string& path,
                                     const std::string& reason,
                                     const std::string& root) {
    if (!path.starts_with('/')) {
        return fail(Code::invalid, "\"" + path + "\" is not an absolute path");
    }
    const Chain chain = follow(root, path);
    if (!chain.reached()) {
        return fail(
            Code::missing,
            chain.links.empty() ? chain.problem : path + " leads to nothing: " + chain.problem);
    }
    return binds_of(layout, chain, reason);
}

}  // namespace mosaic::sandbox
