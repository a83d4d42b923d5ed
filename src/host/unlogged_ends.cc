#include "host/unlogged_ends.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <utility>

#include "base/file_time.h"
#include "base/instant.h"
#include "process/files.h"
#include "registry/layout.h"
#include "wire/limits.h"
#include "wire/session_file.h"

namespace mosaic::host {
namespace {

constexpr uint64_t kSessionFileBytesMax = uint64_t{1024} * 1024;

// When its directory was made, more or less: nothing is added to it after the launch.
std::string made_at(int runs, const std::string& run) {
    struct stat facts {};

    if (::fstatat(runs, run.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return {};
    }
    return iso8601(file_time_ns(facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec) / 1'000'000);
}

Result<wire::SessionFile> read_session(int runs, const std::string& run) {
    const std::string name = run + "/" + std::string(registry::kSessionFile);
    MOSAIC_TRY_ASSIGN(const std::string text,
                      process::read_file_beneath(runs, name, kSessionFileBytesMax));
    MOSAIC_TRY_ASSIGN(const json::Value value, json::parse(text, {limits::kFileDepthMax}));
    return wire::SessionFile::from(value, name);
}

}  // namespace

std::vector<wire::BoundRun> unlogged_ends(int runs,
                                          const wire::BoundResult& bound,
                                          const LoggedEnds& logged) {
    std::set<std::string> settled = logged.runs;
    for (const wire::BoundRun& run : bound.bound) {
        settled.insert(run.run);
    }
    std::vector<wire::BoundRun> out;
    for (const std::string& run : bound.known) {
        if (settled.count(run) > 0 || made_at(runs, run) < logged.since) {
            continue;
        }
        auto session = read_session(runs, run);
        if (session) {
            wire::BoundRun ended;
            ended.seat = std::move(session->seat);
            ended.run = run;
            ended.harness = std::move(session->harness);
            out.push_back(std::move(ended));
        }
    }
    return out;
}

}  // namespace mosaic::host
