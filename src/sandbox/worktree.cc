#include "sandbox/worktree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "base/utf8.h"
#include "process/files.h"

namespace mosaic::sandbox {
namespace {

constexpr uint64_t kLinkBytesMax = 4096;
constexpr uint64_t kConfigBytesMax = uint64_t{1024} * 1024;

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
UniqueFd open_itself(int directory, const char* name, mode_t wanted) {
    UniqueFd fd(::openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));

    struct stat facts {};

    if (fd.valid() && (::fstat(fd.get(), &facts) != 0 || (facts.st_mode & S_IFMT) != wanted)) {
        fd.reset();
    }
    return fd;
}

// Reads one that was opened so.
Result<std::string> read_opened(const UniqueFd& fd, uint64_t bytes_max) {
    return process::read_file("/proc/self/fd/" + std::to_string(fd.get()), bytes_max);
}

// Whether a config has an option whose name holds this, in any case.
bool mentions(std::string config, std::string_view lower) {
    std::transform(config.begin(), config.end(), config.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    return config.find(lower) != std::string::npos;
}

// The repository of a worktree, as far as it has proven to be that.
class Repository {
  public:
    Repository(const Workspace& workspace, const std::string& gitdir)
        : workspace_(workspace), gitdir_(gitdir) {}

    // Empty: everything holds and the binds are made; else what doesn't.
    std::string prove(const std::vector<Place>& places) {
        for (const auto step : {&Repository::find, &Repository::check_back}) {
            if (std::string problem = (this->*step)(); !problem.empty()) {
                return problem;
            }
        }
        std::vector<Place> others = places;
        others.erase(
            std::remove_if(others.begin(),
                           others.end(),
                           [](const Place& place) { return place.what.starts_with(kWorkspaceOf); }),
            others.end());
        if (std::string problem = unsafe_reason(common_, others); !problem.empty()) {
            return problem;
        }
        if (std::string problem = open_all(); !problem.empty()) {
            return problem;
        }
        return check_config();
    }

    [[nodiscard]] const std::string& common() const { return common_; }

    // Read-only as a whole, and in it what a commit writes. Not the other way round: a file that a
    // session may make beside them is obeyed by its owner's git (`commondir` names other settings),
    // and a settings file that was laid on top goes when its owner's git renames a new one there.
    void add_to(GitFinding& out) {
        add(out, BindKind::read_only_fd, common_, "the repository of the worktree", common_fd_);
        add(out, BindKind::read_write_fd, common_ + "/objects", "git commits", objects_);
        add(out, BindKind::read_write_fd, common_ + "/refs", "git commits", refs_);
        add(out, BindKind::read_write_fd, common_ + "/logs", "git commits", logs_);
        add(out, BindKind::read_write_fd, real_, "what git keeps of the worktree", real_fd_);
    }

  private:
    const Workspace& workspace_;
    std::string gitdir_;  // as the workspace says
    std::string real_;    // <common>/worktrees/<name>
    std::string common_;
    UniqueFd common_fd_;
    UniqueFd objects_;
    UniqueFd refs_;
    UniqueFd logs_;  // none where git keeps no reflogs
    UniqueFd real_fd_;
    UniqueFd config_;

    std::string find() {
        const auto real = process::real_path(gitdir_);
        if (!real) {
            return real.error().text;
        }
        real_ = *real;
        if (name_of(parent_of(real_)) != "worktrees") {
            return "it is no worktree's directory";
        }
        common_ = parent_of(parent_of(real_));
        const auto text = process::read_file(real_ + "/commondir", kLinkBytesMax);
        const auto path = text ? git_path_in(*text, "") : std::nullopt;
        const auto named = path ? process::real_path(absolute(*path, real_)) : std::string();
        return named && *named == common_ ? "" : real_ + "/commondir names another repository";
    }

    // A session can't write there, unless the repository was bound for it.
    std::string check_back() {
        const auto text = process::read_file(real_ + "/gitdir", kLinkBytesMax);
        const auto path = text ? git_path_in(*text, "") : std::nullopt;
        const std::string full = path ? absolute(*path, real_) : "";
        const auto named = process::real_path(parent_of(full.empty() ? "/" : full));
        const bool ours = path && named && name_of(full) == ".git" && *named == workspace_.path;
        return ours ? "" : real_ + "/gitdir doesn't name this workspace";
    }

    std::string open_all() {
        common_fd_.reset(::open(common_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!common_fd_.valid()) {
            return common_ + " can't be opened";
        }
        // It may lie in the workspace of a session that runs and replaces a directory on the way:
        // what was proven above, by path, must be what is bound. Below it no link is followed.
        const auto opened = process::real_path("/proc/self/fd/" + std::to_string(common_fd_.get()));
        if (!opened || *opened != common_) {
            return common_ + " was replaced while it was looked at";
        }
        config_ = open_itself(common_fd_.get(), "config", S_IFREG);
        objects_ = open_itself(common_fd_.get(), "objects", S_IFDIR);
        refs_ = open_itself(common_fd_.get(), "refs", S_IFDIR);
        logs_ = open_itself(common_fd_.get(), "logs", S_IFDIR);
        const UniqueFd worktrees = open_itself(common_fd_.get(), "worktrees", S_IFDIR);
        real_fd_ = open_itself(worktrees.get(), name_of(real_).c_str(), S_IFDIR);
        const bool repository = config_.valid() && objects_.valid() && refs_.valid();
        return repository && real_fd_.valid() ? "" : common_ + " is no git repository";
    }

    // With that extension each worktree has settings of its own, where a session could write.
    std::string check_config() {
        const auto text = read_opened(config_, kConfigBytesMax);
        if (!text) {
            return common_ + "/config: " + text.error().text;
        }
        return mentions(*text, "worktreeconfig")
                   ? common_ + "/config switches extensions.worktreeConfig on"
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

GitFinding look_at_git(const Workspace& workspace, bool allowed, const std::vector<Place>& places) {
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
    if (!allowed) {
        out.warning = says +
                      "a session doesn't see: git fails in it; give it a clone of its own, or set "
                      "sandbox.gitCommonDir to true";
        return out;
    }
    Repository repository(workspace, gitdir);
    const std::string problem = repository.prove(places);
    if (!problem.empty()) {
        out.warning =
            says + "a session doesn't see, although sandbox.gitCommonDir is on: " + problem;
        return out;
    }
    if (!lies_in(repository.common(), workspace.path)) {
        repository.add_to(out);
    }
    return out;
}

}  // namespace mosaic::sandbox
