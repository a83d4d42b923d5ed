#include <filesystem>

#include "base/ids.h"
#include "config/config.h"
#include "config/fields.h"
#include "process/files.h"

namespace mosaic::config {
namespace {

constexpr uint64_t kContractBytesMax = uint64_t{1024} * 1024;

bool exists(const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error) || error;
}

Result<std::string> read_trusted(const std::string& path, uint64_t bytes_max) {
    if (!exists(path)) {
        return fail(Code::missing, path + ": does not exist");
    }
    MOSAIC_TRY(process::check_trusted(path));
    return process::read_file(path, bytes_max);
}

void give(std::string* text, std::string read) {
    if (text != nullptr) {
        *text = std::move(read);
    }
}

bool is_named(const std::string& given, const Environment& env) {
    const auto named = env.find("MOSAIC_CONFIG");
    return !given.empty() || (named != env.end() && !named->second.empty());
}

}  // namespace

Result<std::string> absolute_path(const std::string& path) {
    if (path.starts_with('/')) {
        return path;
    }
    std::error_code error;
    const std::filesystem::path here = std::filesystem::current_path(error);
    if (error) {
        return fail_sys(error.value(), path + ": the working directory");
    }
    return (here / path).string();
}

Result<SystemConfig> load_system(const std::string& given,
                                 const Environment& env,
                                 std::string* text) {
    MOSAIC_TRY_ASSIGN(const std::string looked_for, system_file_path(given, env));
    MOSAIC_TRY_ASSIGN(const std::string path, absolute_path(looked_for));
    SystemConfig out;
    if (!exists(path) && !is_named(given, env)) {
        MOSAIC_TRY_ASSIGN(out, parse_system("{}", path, env));
        out.file.clear();
        give(text, "");
    } else {
        MOSAIC_TRY_ASSIGN(std::string read, read_trusted(path, kFileBytesMax));
        MOSAIC_TRY_ASSIGN(out, parse_system(read, path, env));
        give(text, std::move(read));
    }
    if (exists(out.roles_dir)) {  // without it each launch is refused with no-role-contract
        MOSAIC_TRY(process::check_trusted(out.roles_dir));
    }
    for (size_t i = 0; i < out.plugin_dirs.size(); ++i) {
        if (auto checked = process::check_trusted(out.plugin_dirs[i]); !checked) {
            checked.error().text =
                path + ": /pluginDirs/" + std::to_string(i) + ": " + checked.error().text;
            return tl::unexpected<Error>(std::move(checked.error()));
        }
    }
    return out;
}

bool is_business_path(std::string_view name) {
    return name.find('/') != std::string_view::npos || name.ends_with(".json");
}

Result<Business> load_business(const std::string& name,
                               const SystemConfig& system,
                               std::string* text) {
    const bool is_path = is_business_path(name);
    if (!is_path && !is_id(name)) {
        return fail(Code::invalid,
                    "business: expected an id or a file's path, found " + in_quotes(name));
    }
    MOSAIC_TRY_ASSIGN(
        const std::string path,
        absolute_path(is_path ? name : system.directory + "/businesses/" + name + ".json"));
    MOSAIC_TRY_ASSIGN(std::string read, read_trusted(path, kFileBytesMax));
    MOSAIC_TRY_ASSIGN(Business out, parse_business(read, path));
    give(text, std::move(read));
    if (!is_path && out.id != name) {
        return fail(Code::invalid,
                    path + ": /id: expected \"" + name + "\" as the file is named, found " +
                        in_quotes(out.id));
    }
    return out;
}

Result<std::string> load_contract(const SystemConfig& system, const Instance& instance) {
    return read_trusted(contract_path(system, instance), kContractBytesMax);
}

}  // namespace mosaic::config
