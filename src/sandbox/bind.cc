#include "sandbox/bind.h"

#include <algorithm>

#include "base/assert.h"

namespace mosaic::sandbox {

std::string_view to_string(BindKind kind) {
    switch (kind) {
        case BindKind::read_only:
        case BindKind::read_only_fd:
            return "read-only";
        case BindKind::read_write:
        case BindKind::read_write_fd:
            return "read-write";
        case BindKind::symlink:
            return "link";
        case BindKind::directory:
            return "directory";
        case BindKind::device:
            return "devices";
        case BindKind::proc:
            return "proc";
        case BindKind::tmpfs:
            return "tmpfs";
        case BindKind::remount_read_only:
            return "made read-only";
    }
    MOSAIC_ASSERT(false);
}

std::string tidy_path(std::string_view path) {
    std::string out;
    out.reserve(path.size());
    size_t at = 0;
    while (at < path.size()) {
        const size_t end = std::min(path.find('/', at), path.size());
        const std::string_view segment = path.substr(at, end - at);
        if (!segment.empty() && segment != ".") {
            out += '/';
            out += segment;
        }
        at = end + 1;
    }
    return out.empty() ? "/" : out;
}

bool lies_in(std::string_view path, std::string_view parent) {
    if (parent == "/" || path == parent) {
        return true;
    }
    return path.size() > parent.size() && path.starts_with(parent) && path[parent.size()] == '/';
}

size_t depth_of(std::string_view path) {
    return path == "/" ? 0 : static_cast<size_t>(std::count(path.begin(), path.end(), '/'));
}

}  // namespace mosaic::sandbox
