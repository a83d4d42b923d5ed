#include "bench/scratch.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/unique_fd.h"
#include "process/files.h"
#include "process/write_all.h"
#include "wire/json.h"

namespace mosaic::bench {
namespace {

constexpr const char* kProvider = "local";
constexpr const char* kModel = "shell";

json::Value object(std::initializer_list<json::Member> members) {
    return json::Value(json::Object(members));
}

json::Value role(const std::string& workspace) {
    return object({
        {"definition", "worker"},
        {"workspace", workspace},
        {"vars",
         object({{"harness", "script"},
                 {"provider", kProvider},
                 {"model", kModel},
                 {"thinking", "off"},
                 {"script.command", "cat"},
                 {"limits.tools", json::Array{}},
                 {"limits.typed", json::Array{}},
                 {"network", "host"}})},
        {"authority",
         object({{"withinRole", json::Array{json::Value("message.send")}},
                 {"crossRole", json::Array{}},
                 {"gated", json::Array{}}})},
    });
}

// Ended runs stay until the end: tidying up between measurements would fall on whichever mode comes
// next.
json::Value system_config() {
    return object({{"plugins", object({{"harness", json::Array{json::Value("script")}}})},
                   {"limits", object({{"runsKept", 1'000'000}})}});
}

// ext4 passes over inodes that were deleted in the last five minutes, one by one, whenever it looks
// for a free one: the scratch directories that earlier runs took away would slow this one's down.
// With this flag directories made here start in another part of the disk, which their names decide:
// so the names that matter are new in each run. A file system without the flag doesn't need it.
void spread_below(const std::string& directory) {
    const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int flags = 0;
    if (fd.valid() && ::ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        ::ioctl(fd.get(), FS_IOC_SETFLAGS, &flags);
    }
}

}  // namespace

std::string seat_name(int index) {
    return "s" + std::to_string(index);
}

Result<void> write_file(const std::string& path, const std::string& content) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd.valid()) {
        return fail_sys(errno, path);
    }
    return process::write_all(fd.get(), content, path);
}

Result<void> make_directories(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) {
        return fail(Code::system, path + ": " + error.message());
    }
    return {};
}

Result<Scratch> Scratch::make(const std::string& base, int seats, int warm) {
    MOSAIC_TRY(make_directories(base));
    MOSAIC_TRY_ASSIGN(const std::string real, process::real_path(base));
    if ((real + "/").starts_with("/tmp/")) {
        return fail(Code::invalid, real + ": sessions have a /tmp of their own; choose another");
    }
    std::string pattern = real + "/mosaic-bench.XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
        return fail_sys(errno, pattern);
    }
    Scratch out(pattern);
    spread_below(pattern);
    MOSAIC_TRY(out.fill(seats, warm));
    return out;
}

Result<void> Scratch::fill(int seats, int warm) const {
    for (const char* directory : {"/home", "/config/roles", "/config/businesses"}) {
        MOSAIC_TRY(make_directories(root_ + directory));
    }
    MOSAIC_TRY(make_directories(plain()));
    MOSAIC_TRY(write_file(root_ + "/config/roles/worker.md", "# worker\nDoes what it is told.\n"));
    json::Value roles = object({});
    json::Array instances;
    roles.set("boss", role(root_ + "/ws/boss"));
    MOSAIC_TRY(make_directories(root_ + "/ws/boss"));
    for (int i = 0; i < seats; ++i) {
        const std::string name = seat_name(i);
        MOSAIC_TRY(make_directories(root_ + "/ws/" + name));
        json::Value one = role(root_ + "/ws/" + name);
        if (i >= seats - warm) {
            one.set("warm", 1);
        }
        roles.set(name, std::move(one));
        instances.emplace_back(name);
    }
    const json::Value business = object({
        {"id", kBusiness},
        {"human", "jordan"},
        {"arbiters", object({})},
        {"roles", std::move(roles)},
        {"launch",
         object({{"by", "boss"},
                 {"instances", std::move(instances)},
                 {"models",
                  json::Array{
                      object({{"provider", kProvider}, {"model", kModel}, {"max", seats + 1}})}}})},
    });
    MOSAIC_TRY(write_file(system_file(), json::dump_pretty(system_config()) + "\n"));
    return write_file(business_file(), json::dump(business) + "\n");
}

Scratch::Scratch(Scratch&& other) noexcept
    : root_(std::exchange(other.root_, "")), keep_(other.keep_) {}

Scratch::~Scratch() {
    if (!root_.empty() && !keep_) {
        std::error_code error;
        std::filesystem::remove_all(root_, error);
    }
}

}  // namespace mosaic::bench
