#include "sandbox/workspace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include "base/utf8.h"

namespace mosaic::sandbox {
namespace {

// Bound into every session, or the kernel's and the system's own.
constexpr std::array<const char*, 15> kSystemDirs = {"/usr",
                                                     "/etc",
                                                     "/bin",
                                                     "/sbin",
                                                     "/lib",
                                                     "/lib32",
                                                     "/lib64",
                                                     "/libx32",
                                                     "/proc",
                                                     "/sys",
                                                     "/dev",
                                                     "/run",
                                                     "/boot",
                                                     "/nix/store",
                                                     "/gnu/store"};

// Below the home directory: what acts for the human.
constexpr std::array<const char*, 24> kSecrets = {".config",
                                                  ".ssh",
                                                  ".gnupg",
                                                  ".aws",
                                                  ".azure",
                                                  ".kube",
                                                  ".docker",
                                                  ".claude",
                                                  ".claude.json",
                                                  ".codex",
                                                  ".pi",
                                                  ".mosaic",
                                                  ".netrc",
                                                  ".npmrc",
                                                  ".pypirc",
                                                  ".cargo/credentials.toml",
                                                  ".git-credentials",
                                                  ".gitconfig",
                                                  ".password-store",
                                                  ".local/share/keyrings",
                                                  ".local/share/mosaic",
                                                  ".mozilla",
                                                  ".thunderbird",
                                                  ".pki"};

std::string parent_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

void add(std::vector<Place>& places, const std::string& path, const char* what) {
    if (!path.empty()) {
        places.push_back(Place{.path = path, .what = what});
    }
}

void add_all(std::vector<Place>& places, const std::vector<std::string>& paths, const char* what) {
    for (const std::string& path : paths) {
        add(places, path, what);
    }
}

void add_home(std::vector<Place>& places, const PlaceFacts& facts) {
    if (facts.home.empty()) {
        return;
    }
    places.push_back(Place{.path = facts.home, .what = "the home directory", .inside = false});
    for (const char* secret : kSecrets) {
        add(places, facts.home + "/" + secret, "secrets of the user,");
    }
}

// The real path of what a descriptor names, "" when it has none in our view any more.
std::string path_of(int fd) {
    std::array<char, PATH_MAX> text{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t n = ::readlink(link.c_str(), text.data(), text.size());
    if (n <= 0 || static_cast<size_t>(n) == text.size()) {
        return "";
    }
    std::string path(text.data(), static_cast<size_t>(n));

    // A removed or moved-away directory reads "<path> (deleted)" or "(unreachable)<path>"; only the
    // file itself tells that from a name that really ends so.
    struct stat by_fd {};

    struct stat by_path {};

    if (::fstat(fd, &by_fd) != 0 || ::lstat(path.c_str(), &by_path) != 0 ||
        by_fd.st_dev != by_path.st_dev || by_fd.st_ino != by_path.st_ino) {
        return "";
    }
    return path;
}

// The real path of the longest part that exists, and the rest as text.
std::string resolved(const std::string& path) {
    std::string existing = tidy_path(path);
    std::string rest;
    for (;;) {
        const UniqueFd fd(::open(existing.c_str(), O_PATH | O_CLOEXEC));
        if (fd.valid()) {
            const std::string real = path_of(fd.get());
            if (!real.empty()) {
                return tidy_path(real + rest);
            }
        }
        if (existing == "/") {
            return tidy_path(path);
        }
        const std::string parent = parent_of(existing);
        rest.insert(0, existing.substr(parent == "/" ? 0 : parent.size()));
        existing = parent;
    }
}

const char* relation(const std::string& workspace, const Place& place) {
    if (workspace == place.path) {
        return place.equal ? "is" : nullptr;
    }
    if (place.holds && lies_in(place.path, workspace)) {
        return "holds";
    }
    if (place.inside && lies_in(workspace, place.path)) {
        return "lies in";
    }
    return nullptr;
}

std::string missing_reason(const std::string& configured, int sys) {
    const std::string shown = escape_path(configured);
    switch (sys) {
        case ENOENT:
            return shown + " does not exist (or is a link to nothing)";
        case ENOTDIR:
            return shown + " is not a directory";
        default:
            return shown + ": " + errno_text(sys);
    }
}

bool is_utf8(std::string_view text) {
    return valid_utf8_prefix(text) == text.size();
}

// Text alone can't tell where ".." leads.
bool goes_up(const std::string& tidy) {
    return (tidy + "/").find("/../") != std::string::npos;
}

// Whether a way has a turn below this directory, whose session could replace it. The directory
// itself is none of its own session's to replace.
bool turns_below(const Chain& chain, const std::string& directory) {
    const auto below = [&](const std::string& path) {
        return path != directory && lies_in(path, directory);
    };
    return std::any_of(chain.links.begin(),
                       chain.links.end(),
                       [&](const Link& link) { return below(link.path); }) ||
           std::any_of(chain.left.begin(), chain.left.end(), below);
}

// Whether the way to a workspace goes through that of another instance, or through itself: a
// session can lead it elsewhere, now, or between this look and the opening, or for the next launch.
// Empty: it doesn't, so that no session had a hand in it.
std::string led_through(const Chain& chain, const std::vector<Place>& places) {
    for (const Place& place : places) {
        if (!place.what.starts_with(kWorkspaceOf)) {
            continue;
        }
        const bool ends_below = chain.real != place.path && lies_in(chain.real, place.path);
        if (ends_below || turns_below(chain, place.path)) {
            return place.what + " " + escape_path(place.path);
        }
    }
    return turns_below(chain, chain.real) ? "itself" : "";
}

// Decides where the session has the workspace whose real path is known. Empty, or why nowhere.
std::string settle_inside(Workspace& workspace,
                          const std::string& configured,
                          const std::vector<Place>& places) {
    if (is_utf8(workspace.path)) {
        workspace.inside = workspace.path;
        return "";
    }
    const std::string named = tidy_path(configured);
    if (!is_utf8(named) || goes_up(named)) {
        return escape_path(workspace.path) +
               " is not UTF-8, which no session can be told: name it by a link whose path is, "
               "without \"..\"";
    }
    // It is mounted there, so there must be nothing that a workspace may not cover.
    workspace.inside = named;
    return unsafe_reason(named, places);
}

}  // namespace

Place workspace_place(const OtherWorkspace& other, bool shared) {
    return {.path = other.path,
            .what = kWorkspaceOf + other.instance + ",",
            .equal = !(shared && other.shared)};
}

std::vector<Place> forbidden_places(const PlaceFacts& facts) {
    std::vector<Place> places{
        Place{.path = "/", .what = "the root directory", .holds = false, .inside = false},
        // The session's private /tmp stands there; a directory below it is fine.
        Place{.path = "/tmp", .what = "the place of the session's own /tmp,", .inside = false}};
    add_home(places, facts);
    for (const char* dir : kSystemDirs) {
        add(places, dir, "the system directory");
    }
    if (facts.layout != nullptr) {
        for (const Entry& entry : facts.layout->entries) {
            if (entry.kind != EntryKind::absent) {
                add(places, entry.path, "the system directory");
            }
        }
    }
    add(places, facts.config_home, "the configuration directory");
    add_all(places, facts.data_roots, "the data root");
    add_all(places, facts.config_dirs, "the configuration directory");
    add_all(places, facts.config_files, "the configuration file");
    add(places, facts.roles_dir, "the roles directory");
    add_all(places, facts.contracts, "a role's contract");
    add_all(places, facts.plugin_dirs, "the plugin directory");
    add_all(places, facts.module_dirs, "the harness module");
    for (const std::string& program : facts.programs) {
        if (!program.empty()) {
            add(places, parent_of(tidy_path(program)), "the program directory");
        }
    }
    for (const OtherWorkspace& other : facts.others) {
        places.push_back(workspace_place(other, facts.shared));
    }
    return places;
}

std::vector<Place> resolve_places(const std::vector<Place>& places) {
    std::vector<Place> out;
    out.reserve(places.size());
    for (const Place& place : places) {
        Place real = place;
        real.path = resolved(place.path);
        if (std::find(out.begin(), out.end(), real) == out.end()) {
            out.push_back(std::move(real));
        }
        // No link on the way may lie in a workspace either: who can replace it decides where the
        // way leads. A program found through one is the usual case.
        const Chain chain = follow("/", place.path);
        for (const Link& met : chain.links) {
            Place link = place;
            link.path = met.path;
            if (std::find(out.begin(), out.end(), link) == out.end()) {
                out.push_back(std::move(link));
            }
        }
        // Nor a directory that ".." leads out of: who can replace it decides where to. A workspace
        // that is named so is refused itself.
        if (place.what.starts_with(kWorkspaceOf)) {
            continue;
        }
        for (const std::string& path : chain.left) {
            Place left = place;
            left.path = path;
            left.equal = false;
            left.inside = false;
            if (std::find(out.begin(), out.end(), left) == out.end()) {
                out.push_back(std::move(left));
            }
        }
    }
    return out;
}

std::string unsafe_reason(const std::string& workspace, const std::vector<Place>& places) {
    for (const Place& place : places) {
        const char* how = relation(workspace, place);
        if (how != nullptr) {
            return escape_path(workspace) + " " + how + " " + place.what + " " +
                   escape_path(place.path);
        }
    }
    return "";
}

tl::expected<Workspace, WorkspaceRefusal> open_workspace(const std::string& configured,
                                                         const std::vector<Place>& places) {
    const auto refuse = [](Refusal code, std::string reason) {
        return tl::unexpected<WorkspaceRefusal>(WorkspaceRefusal{code, std::move(reason)});
    };
    if (!configured.starts_with('/')) {
        return refuse(Refusal::workspace_missing,
                      "\"" + escape_path(configured) + "\" is not an absolute path");
    }
    const Chain chain = follow("/", configured);
    Workspace workspace;
    workspace.fd.reset(::open(configured.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!workspace.fd.valid()) {
        return refuse(Refusal::workspace_missing, missing_reason(configured, errno));
    }
    workspace.path = path_of(workspace.fd.get());
    if (workspace.path.empty()) {
        return refuse(Refusal::workspace_missing,
                      escape_path(configured) + " was moved or removed while it was looked at");
    }
    const std::string unsafe = unsafe_reason(workspace.path, places);
    if (!unsafe.empty()) {
        const bool by_link = tidy_path(configured) != workspace.path;
        const std::string shown = escape_path(workspace.path);
        return refuse(Refusal::workspace_unsafe,
                      by_link ? escape_path(configured) + " leads to " + shown + ", which" +
                                    unsafe.substr(shown.size())
                              : unsafe);
    }
    // What wasn't there a moment ago may be a session's, which makes it and takes it away again.
    if (!chain.reached()) {
        return refuse(Refusal::workspace_missing,
                      escape_path(configured) + " changed while it was looked at");
    }
    if (const std::string through = led_through(chain, places); !through.empty()) {
        return refuse(Refusal::workspace_unsafe,
                      escape_path(configured) + " leads through " + through +
                          ", where a session decides where it ends");
    }
    if (std::string nowhere = settle_inside(workspace, configured, places); !nowhere.empty()) {
        return refuse(Refusal::workspace_unsafe, std::move(nowhere));
    }
    return workspace;
}

}  // namespace mosaic::sandbox
