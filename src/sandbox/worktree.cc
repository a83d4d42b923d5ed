#include "sandbox/worktree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <tuple>

#include "base/utf8.h"
#include "process/files.h"
#include "process/local_path.h"

namespace mosaic::sandbox {
namespace {

constexpr uint64_t kLinkBytesMax = 4096;
constexpr uint64_t kConfigBytesMax = uint64_t{1024} * 1024;
constexpr int64_t kLogsBytes = int64_t{16} * 1024 * 1024;
// Directory entries that are looked at; a session may have made any number.
constexpr int kEntriesMax = 20'000;
// Directories that are looked into, in one look: each costs as much as a hundred entries.
constexpr int kDirectoriesMax = 2'000;
constexpr int kLevelsMax = 16;  // each level holds two descriptors meanwhile

std::string parent_of(const std::string& path) {
    return path.substr(0, std::max<size_t>(path.rfind('/'), 1));
}

std::string name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

// An absolute path of one that is meant from `from`.
std::string absolute(const std::string& path, const std::string& from) {
    return path.starts_with('/') ? path : from + "/" + path;
}

// A directory or regular file itself, no link. `wanted` is S_IFDIR or S_IFREG.
UniqueFd open_itself(process::LocalPaths& paths,
                     int directory,
                     const std::string& name,
                     mode_t wanted) {
    auto fd = paths.open_in(directory, name);

    struct stat facts {};

    if (!fd || ::fstat(fd->get(), &facts) != 0 || (facts.st_mode & S_IFMT) != wanted) {
        return {};
    }
    return std::move(*fd);
}

// Whether a directory has this name, be it a link. What can't be told counts as there.
bool exists(process::LocalPaths& paths, int directory, const std::string& name) {
    const auto fd = paths.open_in(directory, name);
    return fd || fd.error().code != Code::missing;
}

// Reads one that was opened so.
Result<std::string> read_opened(const UniqueFd& fd, uint64_t bytes_max) {
    return process::read_file("/proc/self/fd/" + std::to_string(fd.get()), bytes_max);
}

// Why something can't be resolved, and what to do where its file system is the reason.
std::string said(const Error& error) {
    return error.code == Code::unsafe
               ? error.text + "; keep the repository on a local one, or give it a clone of its own"
               : error.text;
}

// The path in a file of a directory, links allowed. Nothing where it has none.
Result<std::string> path_in_file(process::LocalPaths& paths, int directory, const char* name) {
    MOSAIC_TRY_ASSIGN(const process::LocalPath file, paths.open(directory, name));

    struct stat facts {};

    if (::fstat(file.fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return fail(Code::invalid, escape_path(file.path) + " is no file");
    }
    MOSAIC_TRY_ASSIGN(const std::string text, read_opened(file.fd, kLinkBytesMax));
    const auto path = git_path_in(text, "");
    return path ? Result<std::string>(*path)
                : fail(Code::invalid, escape_path(file.path) + " holds no path");
}

// Whether a config has an option whose name holds this, in any case.
bool mentions(std::string config, std::string_view lower) {
    std::transform(config.begin(), config.end(), config.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    return config.find(lower) != std::string::npos;
}

bool has_directory(process::LocalPaths& paths, int directory, const std::string& name) {
    const auto fd = paths.open_in(directory, name);

    struct stat facts {};

    return fd ? ::fstat(fd->get(), &facts) == 0 && S_ISDIR(facts.st_mode)
              : fd.error().code == Code::unsafe;
}

// The repository in which this directory lies where sessions write; "" when it lies in none.
std::string written_part_of(process::LocalPaths& paths, int directory, const std::string& path) {
    constexpr std::array<std::string_view, 4> kWritten = {"objects", "refs", "logs", "worktrees"};
    UniqueFd held;
    for (std::string part = path; part != "/"; part = parent_of(part)) {
        const bool written =
            std::find(kWritten.begin(), kWritten.end(), name_of(part)) != kWritten.end();
        std::string parent = parent_of(part);
        auto up = paths.open_in(held.valid() ? held.get() : directory, "..");
        if (!up || (written && has_directory(paths, up->get(), "objects") &&
                    has_directory(paths, up->get(), "refs"))) {
            return parent;
        }
        held = std::move(*up);
    }
    return "";
}

// What is done about directories below those that are searched.
enum class Deeper {
    passed_over,
    refused
};

// Looks in a directory for what git doesn't make there: all but files and directories.
class StraySearch {
  public:
    // `directories`: how many it may still look into; others count it down, too.
    StraySearch(process::LocalPaths& paths, int& directories)
        : paths_(paths), directories_(directories) {}

    // Empty: there is nothing such; else what is wrong. `levels`: how many, the directory's own
    // entries the first; at least 1.
    std::string in(int directory, const std::string& path, int levels, Deeper deeper) {
        if (--directories_ < 0) {
            return "it has too many directories to look through (at " + escape_path(path) +
                   "); git gc makes them fewer";
        }
        UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const std::unique_ptr<DIR, int (*)(DIR*)> list(fd.valid() ? ::fdopendir(fd.get()) : nullptr,
                                                       ::closedir);
        if (list == nullptr) {
            return escape_path(path) + " can't be read";
        }
        static_cast<void>(fd.release());
        while (const dirent* entry = ::readdir(list.get())) {
            const std::string name = entry->d_name;
            if (name == "." || name == "..") {
                continue;
            }
            const std::string full = path + "/" + name;
            const mode_t type = type_of(::dirfd(list.get()), *entry);
            std::string problem = judge(full, type);
            if (problem.empty() && S_ISDIR(type)) {
                problem = below(::dirfd(list.get()), name, full, levels, deeper);
            }
            if (!problem.empty()) {
                return problem;
            }
        }
        return "";
    }

    [[nodiscard]] bool gave_up() const { return left_ < 0 || directories_ < 0; }

  private:
    process::LocalPaths& paths_;
    int& directories_;
    int left_ = kEntriesMax;

    // S_IFLNK, S_IFDIR, ...; 0: gone by now. Without a look at the inode, which may have to be read
    // from disk, where the file system says it.
    mode_t type_of(int directory, const dirent& entry) {
        if (entry.d_type != DT_UNKNOWN) {
            return DTTOIF(entry.d_type);
        }

        struct stat facts {};

        const auto fd = paths_.open_in(directory, entry.d_name);
        if (!fd) {
            // A mount that isn't local: the look below it says so.
            return fd.error().code == Code::unsafe ? S_IFDIR : 0;
        }
        return ::fstat(fd->get(), &facts) == 0 ? facts.st_mode & S_IFMT : 0;
    }

    std::string judge(const std::string& path, mode_t type) {
        if (--left_ < 0) {
            return "it has too many files to look through (at " + escape_path(path) +
                   "); git gc makes them fewer";
        }
        if (S_ISLNK(type)) {
            return escape_path(path) + " is a link, which your own git would follow: remove it";
        }
        if (type != 0 && !S_ISDIR(type) && !S_ISREG(type)) {
            return escape_path(path) +
                   " is neither a file nor a directory, and your own git may wait at it: remove it";
        }
        return "";
    }

    std::string below(int directory,
                      const std::string& name,
                      const std::string& path,
                      int levels,
                      Deeper deeper) {
        if (levels == 1) {
            return deeper == Deeper::passed_over
                       ? ""
                       : escape_path(path) + " lies too deep to look there for links";
        }
        const auto fd = paths_.open_in(directory, name);
        if (!fd) {
            return fd.error().code == Code::unsafe ? said(fd.error()) : "";
        }

        struct stat facts {};

        const bool still = ::fstat(fd->get(), &facts) == 0 && S_ISDIR(facts.st_mode);
        return still ? in(fd->get(), path, levels - 1, deeper) : "";
    }
};

// The repository of a worktree, as far as it has proven to be that.
class Repository {
  public:
    Repository(const Workspace& workspace, const std::string& gitdir)
        : workspace_(workspace), gitdir_(gitdir), paths_(workspace.fd.get()) {}

    // Empty: everything holds and the binds are made; else what doesn't.
    std::string prove(const std::vector<Place>& places) {
        for (const auto step : {&Repository::find, &Repository::check_back}) {
            if (std::string problem = (this->*step)(); !problem.empty()) {
                return problem;
            }
        }
        if (std::string problem = unsafe_reason(common_, places); !problem.empty()) {
            return problem;
        }
        if (const std::string other = written_part_of(paths_, common_fd_.get(), common_);
            !other.empty()) {
            return "it lies where sessions write to the repository " + escape_path(other);
        }
        if (std::string problem = open_all(); !problem.empty()) {
            return problem;
        }
        if (std::string problem = check_config(); !problem.empty()) {
            return problem;
        }
        return check_strays();
    }

    [[nodiscard]] const std::string& common() const { return common_; }

    // Read-only as a whole, and in it what a commit writes. Not the other way round: a file that a
    // session may make beside them is obeyed by its owner's git (`commondir` names other settings),
    // and a settings file that was laid on top goes when its owner's git renames a new one there.
    // What its owner's git writes to by its path, through a link, a session can't replace by itself
    // (the logs, objects/info/commit-graph, gitdir): a mount on a directory keeps it from that,
    // too. Another session to which it sends a descriptor can, for there these are no mounts.
    void add_to(GitFinding& out) {
        const char* commits = "git commits";
        const char* keeps = "what git keeps of the worktree";
        add(out, BindKind::read_only_fd, common_, "the repository of the worktree", common_fd_);
        add(out, BindKind::read_write_fd, common_ + "/objects", commits, objects_);
        add(out,
            BindKind::read_only_fd,
            common_ + "/objects/info",
            "git's notes on objects",
            info_);
        add(out, BindKind::read_write_fd, common_ + "/objects/pack", commits, pack_);
        add(out, BindKind::read_write_fd, common_ + "/refs", commits, refs_);
        add_logs(out, common_ + "/logs");
        add(out, BindKind::read_write_fd, real_, keeps, real_fd_);
        add(out, BindKind::read_only_fd, real_ + "/gitdir", keeps, gitdir_fd_);
        add(out, BindKind::read_only_fd, real_ + "/commondir", keeps, commondir_fd_);
        add_logs(out, real_ + "/logs");
    }

  private:
    const Workspace& workspace_;
    std::string gitdir_;  // as the workspace says
    process::LocalPaths paths_;
    int directories_ = kDirectoriesMax;  // that may still be looked into
    std::string real_;                   // <common>/worktrees/<name>
    std::string common_;
    UniqueFd common_fd_;
    UniqueFd objects_;
    UniqueFd info_;
    UniqueFd pack_;
    UniqueFd refs_;
    UniqueFd logs_;
    UniqueFd real_fd_;
    UniqueFd gitdir_fd_;
    UniqueFd commondir_fd_;
    UniqueFd config_;

    std::string find() {
        auto real = paths_.open(workspace_.fd.get(), gitdir_);
        if (!real) {
            return said(real.error());
        }
        real_ = real->path;
        real_fd_ = std::move(real->fd);
        if (name_of(parent_of(real_)) != "worktrees") {
            return "it is no worktree's directory";
        }
        common_ = parent_of(parent_of(real_));
        if (std::string problem = open_common(); !problem.empty()) {
            return problem;
        }
        const auto path = path_in_file(paths_, real_fd_.get(), "commondir");
        const auto named = path.and_then(
            [&](const std::string& text) { return paths_.open(real_fd_.get(), text); });
        if (!named && named.error().code == Code::unsafe) {
            return said(named.error());
        }
        return named && named->path == common_
                   ? ""
                   : escape_path(real_) + "/commondir names another repository";
    }

    // From the worktree's directory upwards: it may lie in the workspace of a session that runs and
    // replaces a directory on the way, and what is proven must be what is bound.
    std::string open_common() {
        const auto worktrees = paths_.open_in(real_fd_.get(), "..");
        auto common =
            worktrees.and_then([&](const UniqueFd& fd) { return paths_.open_in(fd.get(), ".."); });
        if (!common) {
            return escape_path(common_) + " can't be opened";
        }
        const auto opened = paths_.open(common->get(), ".");
        if (!opened || opened->path != common_) {
            return escape_path(common_) + " was replaced while it was looked at";
        }
        common_fd_ = std::move(*common);
        return "";
    }

    // A session can't write there, unless the repository was bound for it.
    std::string check_back() {
        const auto path = path_in_file(paths_, real_fd_.get(), "gitdir");
        const std::string full = path ? absolute(*path, real_) : "/";
        const auto named = paths_.open(real_fd_.get(), parent_of(full));
        for (const Error* error :
             {path ? nullptr : &path.error(), named ? nullptr : &named.error()}) {
            if (error != nullptr && error->code == Code::unsafe) {
                return said(*error);
            }
        }
        const bool ours =
            path && named && name_of(full) == ".git" && named->path == workspace_.path;
        return ours ? "" : escape_path(real_) + "/gitdir doesn't name this workspace";
    }

    // Below it no link is followed.
    std::string open_all() {
        config_ = open_itself(paths_, common_fd_.get(), "config", S_IFREG);
        objects_ = open_itself(paths_, common_fd_.get(), "objects", S_IFDIR);
        refs_ = open_itself(paths_, common_fd_.get(), "refs", S_IFDIR);
        logs_ = open_itself(paths_, common_fd_.get(), "logs", S_IFDIR);
        info_ = open_itself(paths_, objects_.get(), "info", S_IFDIR);
        pack_ = open_itself(paths_, objects_.get(), "pack", S_IFDIR);
        gitdir_fd_ = open_itself(paths_, real_fd_.get(), "gitdir", S_IFREG);
        commondir_fd_ = open_itself(paths_, real_fd_.get(), "commondir", S_IFREG);
        for (const UniqueFd* fd : {&config_,
                                   &objects_,
                                   &info_,
                                   &pack_,
                                   &refs_,
                                   &real_fd_,
                                   &gitdir_fd_,
                                   &commondir_fd_}) {
            if (!fd->valid()) {
                return escape_path(common_) + " is no git repository as git lays it, without links";
            }
        }
        return "";
    }

    // What else lies there is an earlier session's.
    std::string check_strays() {
        StraySearch search(paths_, directories_);
        for (const auto& [fd, path, levels, deeper] :
             {std::tuple{&refs_, common_ + "/refs", kLevelsMax, Deeper::refused},
              std::tuple{&objects_, common_ + "/objects", 2, Deeper::passed_over},
              std::tuple{&pack_, common_ + "/objects/pack", 1, Deeper::passed_over},
              std::tuple{&info_, common_ + "/objects/info", kLevelsMax, Deeper::refused},
              std::tuple{&real_fd_, real_, 1, Deeper::passed_over}}) {
            if (std::string problem = search.in(fd->get(), path, levels, deeper);
                !problem.empty()) {
                return problem;
            }
        }
        if (!logs_.valid()) {
            return escape_path(common_) +
                   "/logs is no directory, where git logs each commit: make it one";
        }
        if (std::string problem = check_logs(logs_, common_ + "/logs"); !problem.empty()) {
            return problem;
        }
        const UniqueFd own = open_itself(paths_, real_fd_.get(), "logs", S_IFDIR);
        // Where there is none it is made for the session's own.
        const bool none = !own.valid() && !exists(paths_, real_fd_.get(), "logs");
        return own.valid() ? check_logs(own, real_ + "/logs")
               : none      ? ""
                           : escape_path(real_) + "/logs is no directory";
    }

    // A session no longer writes there, so that it is no matter how many there are.
    std::string check_logs(const UniqueFd& fd, const std::string& path) {
        StraySearch search(paths_, directories_);
        std::string problem = search.in(fd.get(), path, kLevelsMax, Deeper::refused);
        return search.gave_up() ? "" : problem;
    }

    // The session's own, in memory.
    static void add_logs(GitFinding& out, const std::string& path) {
        out.binds.push_back(Bind{.kind = BindKind::tmpfs,
                                 .dest = path,
                                 .reason = "what git logs for this run",
                                 .bytes = kLogsBytes});
    }

    // With that extension each worktree has settings of its own, where a session could write.
    std::string check_config() {
        const auto text = read_opened(config_, kConfigBytesMax);
        if (!text) {
            return escape_path(common_) + "/config: " + text.error().text;
        }
        if (mentions(*text, "worktreeconfig")) {
            return escape_path(common_) + "/config switches extensions.worktreeConfig on";
        }
        // An earlier session's, for the day on which it is switched on.
        return exists(paths_, real_fd_.get(), "config.worktree")
                   ? escape_path(real_) +
                         "/config.worktree, which git makes only where "
                         "extensions.worktreeConfig is on, is there without it: remove it"
                   : "";
    }

    static void add(
        GitFinding& out, BindKind kind, const std::string& path, const char* reason, UniqueFd& fd) {
        if (!fd.valid()) {
            return;
        }
        out.binds.push_back(Bind{.kind = kind,
                                 .source = path,
                                 .dest = path,
                                 .reason = reason,
                                 .fd = kGitFdFirst + static_cast<int>(out.fds.size())});
        out.fds.push_back(std::move(fd));
    }
};

}  // namespace

std::optional<std::string> git_path_in(std::string_view text, std::string_view prefix) {
    if (!text.starts_with(prefix)) {
        return std::nullopt;
    }
    text.remove_prefix(prefix.size());
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
        text.remove_suffix(1);
    }
    const bool plain = !text.empty() && text.find('\0') == std::string_view::npos &&
                       text.find('\n') == std::string_view::npos;
    return plain ? std::optional<std::string>(text) : std::nullopt;
}

GitFinding look_at_git(const Workspace& workspace,
                       const GitOptions& options,
                       const std::vector<Place>& places) {
    GitFinding out;
    // A directory, a link, nothing at all: git finds what it needs in the workspace, or nothing.
    const auto text = process::read_file_beneath(workspace.fd.get(), ".git", kLinkBytesMax);
    const auto path = text ? git_path_in(*text, "gitdir: ") : std::nullopt;
    if (!path) {
        return out;
    }
    const std::string gitdir = tidy_path(absolute(*path, workspace.path));
    if (lies_in(gitdir, workspace.path) && gitdir.find("/../") == std::string::npos) {
        return out;
    }
    const std::string says = "the workspace " + escape_path(workspace.path) +
                             " is a git worktree of " + escape_path(gitdir) + ", which ";
    if (!options.common_dir) {
        out.warning = says +
                      "a session doesn't see: git fails in it; give it a clone of its own, or set "
                      "sandbox.gitCommonDir to true";
        return out;
    }
    const std::string although =
        says + "a session doesn't see, although sandbox.gitCommonDir is on: ";
    if (options.nested) {
        out.warning = although +
                      "sandbox.nested is on, too, and with it a session gets rid of what keeps a "
                      "part of it read-only; switch that off, or give it a clone of its own";
        return out;
    }
    Repository repository(workspace, gitdir);
    if (const std::string problem = repository.prove(places); !problem.empty()) {
        out.warning = although + problem;
        return out;
    }
    if (!lies_in(repository.common(), workspace.path)) {
        repository.add_to(out);
    }
    return out;
}

}  // namespace mosaic::sandbox
