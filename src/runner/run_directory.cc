#include "runner/run_directory.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "process/files.h"
#include "wire/environment_rules.h"
#include "wire/json.h"
#include "wire/limits.h"

namespace mosaic::runner {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{1024} * 1024;

// One segment below `parent`, no link. Mounts may be crossed: rw/ is one of its own in a sandbox.
Result<UniqueFd> open_segment(int parent, const char* name) {
    UniqueFd fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid()) {
        return fail_sys(errno, name);
    }
    return fd;
}

Result<json::Value> read_json(int directory, const std::string& name) {
    MOSAIC_TRY_ASSIGN(const std::string text,
                      process::read_file_in(directory, name, kFileBytesMax));
    auto value = json::parse(text, {limits::kFileDepthMax});
    if (!value) {
        return fail(value.error().code, name + ": " + value.error().text);
    }
    return value;
}

Result<void> check_policy(int bundle) {
    MOSAIC_TRY_ASSIGN(const json::Value policy, read_json(bundle, "policy.json"));
    if (policy.object() == nullptr) {
        return fail(Code::invalid,
                    std::string("policy.json: expected an object, found ") + policy.kind());
    }
    return {};
}

}  // namespace

Result<Loaded> load_run(const std::string& path) {
    Loaded out;
    out.directory.path = path;
    const UniqueFd run(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!run.valid()) {
        return fail_sys(errno, path);
    }
    MOSAIC_TRY_ASSIGN(const json::Value file, read_json(run.get(), "session.json"));
    MOSAIC_TRY_ASSIGN(out.session, wire::SessionFile::from(file, "session.json"));
    MOSAIC_TRY_ASSIGN(out.directory.bundle, open_segment(run.get(), "bundle"));
    MOSAIC_TRY(check_policy(out.directory.bundle.get()));
    MOSAIC_TRY_ASSIGN(const UniqueFd rw, open_segment(run.get(), "rw"));
    MOSAIC_TRY_ASSIGN(out.directory.turns, open_segment(rw.get(), "turns"));
    MOSAIC_TRY_ASSIGN(out.directory.io, open_segment(rw.get(), "io"));
    return out;
}

std::string forbidden_variables(const char* const* environment) {
    std::string out;
    for (; *environment != nullptr; ++environment) {
        const std::string_view entry = *environment;
        const std::string_view name = entry.substr(0, entry.find('='));
        if (wire::is_forbidden_variable(name)) {
            out += (out.empty() ? "" : ", ") + std::string(name);
        }
    }
    return out;
}

}  // namespace mosaic::runner
