#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "process/files.h"

namespace mosaic::process {
namespace {

constexpr int kLinksMax = 40;  // like the kernel's own bound

enum class Place {
    holder,  // a directory on the way
    target,  // what the path names
};

// Appends the segments of `path` in reverse, so that the next one is at the back.
void push_segments(std::vector<std::string>& stack, std::string_view path) {
    std::vector<std::string> segments;
    while (!path.empty()) {
        const size_t end = std::min(path.find('/'), path.size());
        if (end > 0) {
            segments.emplace_back(path.substr(0, end));
        }
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    stack.insert(stack.end(), segments.rbegin(), segments.rend());
}

bool is_trusted_owner(uid_t owner) {
    return owner == 0 || owner == ::geteuid();
}

std::string owned_by(const std::string& path, uid_t owner) {
    return path + " is owned by user " + std::to_string(owner) + ", neither root nor us";
}

Result<void> check_entry(const std::string& path, const struct stat& info, Place place) {
    if (!is_trusted_owner(info.st_uid)) {
        return fail(Code::unsafe, owned_by(path, info.st_uid));
    }
    // In a sticky directory nobody but the owner replaces what lies there.
    if (place == Place::holder && S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0) {
        return {};
    }
    if ((info.st_mode & S_IWOTH) != 0) {
        return fail(Code::unsafe, "others may write " + path);
    }
    if ((info.st_mode & S_IWGRP) == 0) {
        return {};
    }
    if (info.st_gid != ::getegid()) {
        return fail(Code::unsafe,
                    "group " + std::to_string(info.st_gid) + ", not our own, may write " + path);
    }
    // With an access list the group bits are its mask: others than the group may have the right.
    if (::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0) {
        return fail(Code::unsafe, "an access list may let others write " + path);
    }
    return {};
}

Result<void> check_path(const std::string& path, Place place) {
    struct stat info {};

    if (::lstat(path.c_str(), &info) != 0) {
        return fail_sys(errno, path);
    }
    return check_entry(path, info, place);
}

Result<std::string> read_link(const std::string& path) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length < 0) {
        return fail_sys(errno, path);
    }
    return std::string(target.data(), static_cast<size_t>(length));
}

}  // namespace

Result<void> check_trusted(const std::string& path) {
    if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) {
        return fail(Code::invalid, "\"" + path + "\" is not an absolute path");
    }
    std::vector<std::string> rest;
    push_segments(rest, path);
    std::string current = "/";  // a real path: every link on the way is resolved

    struct stat info {};

    if (::stat("/", &info) != 0) {
        return fail_sys(errno, "/");
    }
    MOSAIC_TRY(check_entry(current, info, rest.empty() ? Place::target : Place::holder));

    int links = 0;
    while (!rest.empty()) {
        const std::string segment = std::move(rest.back());
        rest.pop_back();
        if (segment == ".") {
            continue;
        }
        if (segment == "..") {
            current.resize(std::max<size_t>(current.rfind('/'), 1));
            continue;
        }
        const std::string next = (current == "/" ? "" : current) + "/" + segment;
        if (::lstat(next.c_str(), &info) != 0) {
            return errno == ENOENT ? fail(Code::missing, next + " does not exist")
                                   : fail_sys(errno, next);
        }
        if (!S_ISLNK(info.st_mode)) {
            MOSAIC_TRY(check_entry(next, info, Place::holder));
            current = next;
            continue;
        }
        // A link's mode says nothing; its owner may replace it, and its directory is checked above.
        if (!is_trusted_owner(info.st_uid)) {
            return fail(Code::unsafe, owned_by(next, info.st_uid));
        }
        if (++links > kLinksMax) {
            return fail(Code::unsafe, path + " passes more than 40 symbolic links");
        }
        MOSAIC_TRY_ASSIGN(const std::string target, read_link(next));
        if (target.starts_with('/')) {
            current.assign(1, '/');
        }
        push_segments(rest, target);
    }
    return check_path(current, Place::target);
}

}  // namespace mosaic::process
