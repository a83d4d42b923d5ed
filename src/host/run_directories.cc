#include "host/run_directories.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/file_time.h"
#include "base/ids.h"
#include "base/instant.h"
#include "host/log.h"
#include "process/files.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::host {
namespace {

constexpr Duration kRemovalTakes = seconds(600);
constexpr Duration kGatherFor = seconds(3);
constexpr size_t kAtOnce = 256;
constexpr int kTidyNice = 10;
constexpr int64_t kDaySeconds = int64_t{24} * 3600;

// When it was last written or trimmed, by what no session can change.
int64_t written_at_ms(int runs, const std::string& run) {
    int64_t at = 0;
    for (const std::string& name : {run, run + "/" + std::string(registry::kRunnerLog)}) {
        struct stat facts {};

        if (::fstatat(runs, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
            at =
                std::max(at, file_time_ns(facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec) / 1'000'000);
        }
    }
    return at;
}

bool exists(int runs, const std::string& name) {
    struct stat facts {};

    return ::fstatat(runs, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

// rw/tmp and rw/home. The transcript, the turns' files and the log stay. The directory's time says
// from then on when that was.
Result<void> trim_run(int runs, const std::string& run) {
    MOSAIC_TRY_ASSIGN(const UniqueFd directory, process::reopen_directory(runs, run));
    MOSAIC_TRY_ASSIGN(const UniqueFd rw,
                      process::reopen_directory(directory.get(), std::string(registry::kRw)));
    for (const std::string_view path : {registry::kRwTmp, registry::kRwHome}) {
        MOSAIC_TRY(
            process::remove_tree(rw.get(), std::string(path.substr(registry::kRw.size() + 1))));
    }
    if (::futimens(directory.get(), nullptr) != 0) {
        return fail_sys(errno, "the time of run directory " + run);
    }
    return {};
}

}  // namespace

RunDirectories::RunDirectories(Loop& loop,
                               Children& children,
                               const config::Limits& limits,
                               int runs)
    : loop_(loop), children_(children), limits_(limits), runs_(runs) {}

std::vector<std::string> RunDirectories::list() const {
    std::vector<std::pair<int64_t, std::string>> found;
    const int copy = ::openat(runs_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* directory = copy >= 0 ? ::fdopendir(copy) : nullptr;
    if (directory == nullptr) {
        return {};
    }
    while (const dirent* entry = ::readdir(directory)) {
        const char* name = static_cast<const char*>(entry->d_name);
        if (is_run_id(name)) {
            found.emplace_back(written_at_ms(runs_, name), name);
        }
    }
    ::closedir(directory);
    std::sort(found.begin(), found.end());
    std::vector<std::string> out;
    out.reserve(found.size());
    for (auto& [at, name] : found) {
        out.push_back(std::move(name));
    }
    return out;
}

void RunDirectories::adopt(const std::string& run) {
    const int64_t age_ms = std::max<int64_t>(0, wall_clock_ms() - written_at_ms(runs_, run));
    kept_.push_back({run, Instant{loop_.now.ns - milliseconds(age_ms).ns}});
    // The host that ended it may have died before these went.
    for (const std::string_view path : {registry::kRwTmp, registry::kRwHome}) {
        if (exists(runs_, run + "/" + std::string(path))) {
            trim(run);
            break;
        }
    }
}

void RunDirectories::ended(const std::string& run) {
    kept_.push_back({run, loop_.now});
    trim(run);
    prune();
}

void RunDirectories::discard(const std::string& run) {
    work_.push_back({kRemoveRun, run});
    due_ = true;
    start();
}

void RunDirectories::prune() {
    const Duration longest = limits_.runs_kept_days == 0
                                 ? Duration{INT64_MAX}
                                 : seconds(limits_.runs_kept_days * kDaySeconds);
    const Instant now = loop_.now;
    const auto most = static_cast<size_t>(limits_.runs_kept);
    while (!kept_.empty() && (kept_.size() > most || now - kept_.front().ended > longest)) {
        later({kRemoveRun, std::move(kept_.front().run)});
        kept_.pop_front();
    }
}

void RunDirectories::trim(const std::string& run) {
    later({kTrimRun, run});
}

void RunDirectories::later(Work work) {
    if (stopping_) {
        return;
    }
    work_.push_back(std::move(work));
    if (!due_) {
        arm();
    }
}

void RunDirectories::arm() {
    if (!armed_) {
        armed_ = true;
        loop_.set_timer(TimerKind::tidy_up, 0, 0, kGatherFor);
    }
}

void RunDirectories::on_timer() {
    armed_ = false;
    if (!stopping_) {
        due_ = true;
        start();
    }
}

// Trees may be deep, and the loop has no time for that.
void RunDirectories::start() {
    if (job_ != 0 || !due_) {
        return;
    }
    if (work_.empty()) {
        due_ = false;
        return;
    }
    process::SpawnSpec spec;
    spec.path = "/proc/self/exe";
    spec.argv = {"mosaic-host"};
    for (size_t i = 0; i < kAtOnce && !work_.empty(); ++i) {
        spec.argv.emplace_back(work_.front().option);
        spec.argv.push_back(work_.front().run);
        under_way_.push_back(std::move(work_.front()));
        work_.pop_front();
    }
    due_ = !work_.empty();  // what comes from now on gathers again
    spec.env = {"LANG=C.UTF-8"};
    spec.descriptors = {{runs_, 3}};
    job_ = children_.run(std::move(spec), {}, kRemovalTakes);
}

bool RunDirectories::settle(const ChildResult& result) {
    if (job_ == 0 || result.job != job_) {
        return false;
    }
    job_ = 0;
    std::deque<Work> given = std::exchange(under_way_, {});
    if (!result.started && !stopping_) {
        // Out of descriptors or processes, and nothing was done: again in a while.
        if (!std::exchange(complained_, true)) {
            log_line("run directories can't be tidied up now (" + errno_text(result.sys) +
                     "); trying again");
        }
        work_.insert(work_.begin(),
                     std::make_move_iterator(given.begin()),
                     std::make_move_iterator(given.end()));
        due_ = false;
        arm();
        return true;
    }
    complained_ = false;
    if (!result.started || result.exit.signal != 0 || result.exit.exit_code != 0) {
        log_line("run directories stay for the next start: " + result.output);
    }
    start();
    return true;
}

int remove_in_runs(int runs,
                   const std::vector<std::string>& remove,
                   const std::vector<std::string>& trim) {
    // Nobody waits for this, and a launch may be under way.
    static_cast<void>(::setpriority(PRIO_PROCESS, 0, kTidyNice));
    int code = exit_code::kFine;
    const auto each = [&](const std::vector<std::string>& names, auto&& what) {
        for (const std::string& run : names) {
            if (!is_run_id(run)) {
                code = exit_code::kInvalidInput;
                return;
            }
            const Result<void> done = what(runs, run);
            if (!done && done.error().code != Code::missing) {
                log_line("the directory of run " + run + " can't be removed: " + done.error().text);
                code = exit_code::kFailed;
            }
        }
    };
    each(trim, trim_run);
    each(remove, process::remove_tree);
    return code;
}

}  // namespace mosaic::host
