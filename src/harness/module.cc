#include "harness/module.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/utf8.h"
#include "process/files.h"

namespace mosaic::harness {
namespace {

constexpr uint64_t kModuleFileBytesMax = uint64_t{4} * 1024 * 1024;
constexpr uint64_t kHarnessJsonBytesMax = uint64_t{256} * 1024;
constexpr const char* kHarnessJson = "harness.json";

bool is_directory(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_directory(path, error);
}

// One file of the module, refused when somebody else could change it.
Result<std::string> read_module_file(int directory,
                                     const std::string& directory_path,
                                     const std::string& name,
                                     uint64_t bytes_max) {
    const std::string path = directory_path + "/" + name;
    Result<std::string> content = process::read_file_beneath(directory, name, bytes_max);
    if (!content) {
        const std::string& text = content.error().text;
        return fail(content.error().code,
                    text.find(path) == std::string::npos ? path + ": " + text : text);
    }
    MOSAIC_TRY(process::check_trusted(path));
    return content;
}

Result<StagedFile> read_staged(int directory,
                               const std::string& directory_path,
                               const std::string& name) {
    StagedFile out;
    out.path = name;
    MOSAIC_TRY_ASSIGN(out.content,
                      read_module_file(directory, directory_path, name, kModuleFileBytesMax));

    struct stat facts {};

    if (::fstatat(directory, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return fail_sys(errno, directory_path + "/" + name);
    }
    out.mode = (facts.st_mode & S_IXUSR) != 0 ? 0500 : 0400;
    return out;
}

std::string hex(const unsigned char* bytes, size_t count) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string out;
    for (size_t i = 0; i < count; ++i) {
        out += kDigits[bytes[i] >> 4U];
        out += kDigits[bytes[i] & 15U];
    }
    return out;
}

// Each part with its length before it, so that no two different trees give the same bytes.
void hash_part(crypto_hash_sha256_state& state, std::string_view part) {
    const std::string head = std::to_string(part.size()) + ":";
    crypto_hash_sha256_update(
        &state, reinterpret_cast<const unsigned char*>(head.data()), head.size());
    crypto_hash_sha256_update(
        &state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
}

// Where modules lie, the first place first.
std::vector<std::string> module_places(const config::SystemConfig& system,
                                       const std::string& shipped) {
    std::vector<std::string> out = system.plugin_dirs;
    if (!shipped.empty()) {
        out.push_back(shipped);
    }
    return out;
}

}  // namespace

Result<Module> load_module(const std::string& directory) {
    MOSAIC_TRY_ASSIGN(const std::string real, process::real_path(directory));
    MOSAIC_TRY_ASSIGN(const UniqueFd fd, process::open_directory(real));
    MOSAIC_TRY(process::check_trusted(real));
    MOSAIC_TRY_ASSIGN(const std::string text,
                      read_module_file(fd.get(), real, kHarnessJson, kHarnessJsonBytesMax));
    const std::string path = real + "/" + kHarnessJson;
    MOSAIC_TRY_ASSIGN(ParsedModule parsed, parse_module(text, path));
    Module& module = parsed.module;
    module.directory = real;
    const std::string named = std::filesystem::path(directory).filename().string();
    if (module.name != named) {
        return fail(Code::invalid,
                    path + ": /name: expected \"" + escape_for_terminal(named) +
                        "\" as the directory is named, found \"" + module.name + "\"");
    }
    for (size_t i = 0; i < module.bundle_files.size(); ++i) {
        const std::string& source = parsed.bundle_sources[i];
        MOSAIC_TRY_ASSIGN(const std::string content,
                          read_module_file(fd.get(), real, source, kModuleFileBytesMax));
        MOSAIC_TRY_ASSIGN(module.bundle_files[i].content,
                          Template::parse(content, real + "/" + source));
        if (const std::string wrong = unknown_placeholder(module, module.bundle_files[i].content);
            !wrong.empty()) {
            return fail(Code::invalid, real + "/" + source + ": " + wrong);
        }
    }
    for (const std::string& name : parsed.file_names) {
        MOSAIC_TRY_ASSIGN(StagedFile file, read_staged(fd.get(), real, name));
        module.files.push_back(std::move(file));
    }
    return std::move(module);
}

ModuleSet load_modules(const config::SystemConfig& system, const std::string& shipped) {
    ModuleSet out;
    const std::vector<std::string> places = module_places(system, shipped);
    for (const std::string& name : system.plugins_harness) {
        const auto place = std::find_if(places.begin(), places.end(), [&](const std::string& p) {
            return is_directory(p + "/" + name);
        });
        if (place == places.end()) {
            std::string looked;
            for (const std::string& p : places) {
                looked += (looked.empty() ? "" : ", ") + p;
            }
            out.problems.emplace(name,
                                 "harness module " + name + " is in no directory of: " +
                                     (looked.empty() ? "(pluginDirs is empty)" : looked));
            continue;
        }
        Result<Module> module = load_module(*place + "/" + name);
        if (module) {
            out.modules.emplace(name, std::move(*module));
        } else {
            out.problems.emplace(name, module.error().text);
        }
    }
    return out;
}

std::vector<std::string> available_modules(const config::SystemConfig& system,
                                           const std::string& shipped) {
    std::vector<std::string> out;
    for (const std::string& place : module_places(system, shipped)) {
        std::error_code error;
        std::filesystem::directory_iterator entry(place, error);
        for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
            const std::string name = entry->path().filename().string();
            std::error_code none;
            if (is_id(name) && std::filesystem::exists(entry->path() / kHarnessJson, none)) {
                out.push_back(name);
            }
        }
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

std::string shipped_directory(const std::string& executable) {
    const std::filesystem::path home = std::filesystem::path(executable).parent_path();
    for (const std::filesystem::path& prefix :
         {home.parent_path(), home.parent_path().parent_path()}) {
        std::string candidate = (prefix / "share/mosaic/harness").string();
        if (is_directory(candidate)) {
            return candidate;
        }
    }
    return {};
}

std::vector<StagedFile> stage_plan(const Module& module) {
    std::vector<StagedFile> out = module.files;
    for (StagedFile& file : out) {
        file.path = "module/" + file.path;
    }
    return out;
}

std::string stage_digest(std::vector<StagedFile> files) {
    std::sort(files.begin(), files.end(), [](const StagedFile& a, const StagedFile& b) {
        return a.path < b.path;
    });
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    for (const StagedFile& file : files) {
        hash_part(state, file.path);
        hash_part(state, std::to_string(file.mode));
        hash_part(state, file.content);
    }
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256_final(&state, digest.data());
    return hex(digest.data(), digest.size());
}

std::string version_from(std::string_view output) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    size_t at = 0;
    while (at < output.size()) {
        const size_t end = std::min(output.find_first_of(" \t\r\n", at), output.size());
        std::string_view word = output.substr(at, end - at);
        if (word.starts_with('v')) {
            word.remove_prefix(1);
        }
        const bool plain = std::all_of(word.begin(), word.end(), [&](char c) {
            return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                   c == '-' || c == '+' || c == '_';
        });
        if (plain && !word.empty() && is_digit(word.front()) &&
            word.find('.') != std::string_view::npos && word.size() <= 64) {
            return std::string(word);
        }
        at = end + 1;
    }
    return {};
}

}  // namespace mosaic::harness
