#include "cli/place.h"

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/ids.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

namespace fs = std::filesystem;

using Answer = tl::expected<Place, Failure>;

tl::unexpected<Failure> no_place(int exit_code, std::string text) {
    return tl::unexpected<Failure>(Failure{exit_code, std::move(text)});
}

// What a wrong configuration means for the exit code.
tl::unexpected<Failure> no_config(const Error& error) {
    return no_place(exit_code::kRefused, error.text);
}

std::vector<std::string> directories_in(const std::string& path) {
    std::vector<std::string> out;
    std::error_code error;
    for (auto at = fs::directory_iterator(path, error); !error && at != fs::directory_iterator();
         at.increment(error)) {
        std::error_code ignored;
        if (at->is_directory(ignored) && is_id(at->path().filename().string())) {
            out.push_back(at->path().filename().string());
        }
    }
    return out;
}

Result<std::string> absolute(const std::string& path) {
    std::error_code error;
    const fs::path out = fs::absolute(path, error).lexically_normal();
    if (error) {
        return fail_sys(error.value(), path);
    }
    return out.string();
}

// The owner of the first of these that exists.
bool find_owner(const std::string& data_root, struct stat& out) {
    for (const std::string& path :
         {registry::lock_path(data_root), registry::bus_host_dir(data_root), data_root}) {
        if (::lstat(path.c_str(), &out) == 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::vector<std::string> configured_ids(const std::string& config_directory) {
    std::vector<std::string> out;
    std::error_code error;
    for (auto at = fs::directory_iterator(config_directory + "/businesses", error);
         !error && at != fs::directory_iterator();
         at.increment(error)) {
        const fs::path& path = at->path();
        if (path.extension() == ".json" && is_id(path.stem().string())) {
            out.push_back(path.stem().string());
        }
    }
    std::sort(out.begin(), out.end());
    return out;
}

Answer choose_place(const std::string& data, const std::string& business, Known known) {
    if (!data.empty()) {
        return Place{data, business};
    }
    const std::string& parent = known.data_root_parent;
    if (!business.empty()) {
        return Place{registry::join(parent, business), business};
    }
    const bool served = !known.there_are.empty();
    std::vector<std::string>& ids = served ? known.there_are : known.configured;
    std::sort(ids.begin(), ids.end());
    if (ids.size() == 1) {
        return Place{registry::join(parent, ids[0]), ids[0]};
    }
    if (ids.empty()) {
        return no_place(exit_code::kUsage,
                        "there is no business below " + parent +
                            ", and none is configured: `mosaic init` writes one; or give --data "
                            "or --business");
    }
    std::string names;
    for (const std::string& name : ids) {
        names += (names.empty() ? "" : ", ") + name;
    }
    return no_place(exit_code::kUsage,
                    "there are several businesses" + (served ? " below " + parent : "") + " (" +
                        names + "); give --business or --data");
}

Answer find_place(const Options& options, const config::Environment& env) {
    std::string business = options.business;
    if (!business.empty() && !config::is_business_path(business) && !is_id(business)) {
        return no_place(exit_code::kInvalidInput,
                        "--business: \"" + business + "\" is no id and no path");
    }
    if (!options.data.empty() && !config::is_business_path(business)) {
        auto data = absolute(options.data);
        if (!data) {
            return no_place(exit_code::kFailed, data.error().text);
        }
        return choose_place(*data, business, {});
    }
    auto system = config::load_system(options.config, env);
    if (!system) {
        return no_config(system.error());
    }
    if (config::is_business_path(business)) {
        auto loaded = config::load_business(business, *system);
        if (!loaded) {
            return no_config(loaded.error());
        }
        business = loaded->id;
    }
    auto data = options.data.empty() ? Result<std::string>("") : absolute(options.data);
    if (!data) {
        return no_place(exit_code::kFailed, data.error().text);
    }
    return choose_place(
        *data,
        business,
        {system->data_root, directories_in(system->data_root), configured_ids(system->directory)});
}

Result<void> become_owner(const std::string& data_root) {
    struct stat owner {};

    if (::geteuid() != 0 || !find_owner(data_root, owner) || owner.st_uid == 0) {
        return {};
    }
    const passwd* user = ::getpwuid(owner.st_uid);
    // A user without a name has no groups but its own.
    const gid_t gid = user != nullptr ? user->pw_gid : owner.st_gid;
    const int groups = user != nullptr ? ::initgroups(user->pw_name, gid) : ::setgroups(1, &gid);
    if (groups != 0) {
        return fail_sys(errno, "setgroups for user " + std::to_string(owner.st_uid));
    }
    if (::setgid(gid) != 0) {
        return fail_sys(errno, "setgid " + std::to_string(gid));
    }
    if (::setuid(owner.st_uid) != 0) {
        return fail_sys(errno, "setuid " + std::to_string(owner.st_uid));
    }
    // Changed ids leave our /proc entries to root (proc(5)); the broker must read them to tell a
    // human from a session. An exec would do the same.
    if (::prctl(PR_SET_DUMPABLE, 1) != 0) {
        return fail_sys(errno, "prctl");
    }
    return {};
}

}  // namespace mosaic::cli
