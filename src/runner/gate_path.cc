#include "runner/gate_path.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>

#include "base/utf8.h"

namespace mosaic::runner {
namespace {

constexpr int kLinksMax = 40;           // as the kernel, path_resolution(7)
constexpr size_t kPathBytesMax = 4095;  // PATH_MAX without its NUL

// Blanks and letters that programs take for others: JavaScript's white space beside the space
// itself, and what a Unicode normal form turns into an ASCII character.
constexpr std::array<std::string_view, 27> kReplaced = {
    "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
    "\u2007", "\u2008", "\u2009", "\u200A", "\u200B", "\u2028", "\u2029", "\u202F", "\u205F",
    "\u3000", "\uFEFF", "\u0085", "\u180E", "\u037E", "\u1FEF", "\u212A", "\u212B", "\u2126"};

bool is_ascii(std::string_view text) {
    return std::all_of(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Result<void> check_text(std::string_view path) {
    if (path.empty()) {
        return fail(Code::invalid, "is empty");
    }
    if (path.size() > kPathBytesMax) {
        return fail(Code::invalid, "is longer than " + std::to_string(kPathBytesMax) + " bytes");
    }
    if (path.front() == ' ' || path.back() == ' ') {
        return fail(Code::invalid, "begins or ends with a space");
    }
    const bool control = std::any_of(path.begin(), path.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (control) {
        return fail(Code::invalid, "holds a control character");
    }
    // Patterns are paths, too; "{a,..}/x" is read as "../x" by those who take patterns.
    const auto has = [&](std::string_view part) {
        return path.find(part) != std::string_view::npos;
    };
    if (has("{") && (has("..") || has("{/") || has(",/") || has("{~") || has(",~"))) {
        return fail(Code::invalid, "holds alternatives that may lead out of the workspace");
    }
    for (const std::string_view one : kReplaced) {
        if (path.find(one) != std::string_view::npos) {
            return fail(Code::invalid, "holds a character that programs take for another one");
        }
    }
    return {};
}

// The absolute paths, with links and dots, that it may be read as.
Result<std::vector<std::string>> readings_of(std::string_view path, const PathSetting& setting) {
    std::vector<std::string_view> plain = {path};
    if (path.front() == '@') {
        plain.push_back(path.substr(1));
    }
    std::vector<std::string> out;
    for (const std::string_view one : plain) {
        if (one.substr(0, 5) == "file:" || one.substr(0, 5) == "FILE:") {
            return fail(Code::invalid, "is a URL; give a plain path");
        }
        if (one.empty() || one.front() != '/') {
            out.push_back(std::string(setting.workspace) + "/" + std::string(one));
        } else {
            out.emplace_back(one);
        }
        if (one.empty() || one.front() != '~') {
            continue;
        }
        if ((one.size() > 1 && one[1] != '/') || setting.home.empty()) {
            return fail(Code::invalid,
                        "begins with ~; for a name that does, write ./" + std::string(one));
        }
        out.push_back(std::string(setting.home) + std::string(one.substr(1)));
    }
    return out;
}

void push_segments(std::deque<std::string>& to, std::string_view path) {
    std::vector<std::string> segments;
    while (!path.empty()) {
        const size_t slash = std::min(path.find('/'), path.size());
        if (slash > 0) {
            segments.emplace_back(path.substr(0, slash));
        }
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    to.insert(to.begin(), segments.begin(), segments.end());
}

void step_up(std::string& place) {
    place.resize(place.rfind('/') == std::string::npos ? 0 : place.rfind('/'));
}

// Without "." and "..", as if nothing were a link.
std::string without_dots(std::string_view path) {
    std::deque<std::string> segments;
    push_segments(segments, path);
    std::string out;
    for (const std::string& segment : segments) {
        if (segment == "..") {
            step_up(out);
        } else if (segment != ".") {
            out += "/" + segment;
        }
    }
    return out.empty() ? "/" : out;
}

// Whether a name that isn't there, or isn't ASCII, may be taken for that of a link beside it: in
// another normal form, with another apostrophe.
bool may_mean_a_link(const std::string& directory, std::string_view name) {
    const auto close = [](DIR* dir) { ::closedir(dir); };
    const std::unique_ptr<DIR, decltype(close)> dir(
        ::opendir(directory.empty() ? "/" : directory.c_str()), close);
    if (!dir) {
        return errno != ENOENT && errno != ENOTDIR;
    }
    while (const dirent* entry = ::readdir(dir.get())) {
        const std::string_view other(entry->d_name);
        const bool link = entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
        if (link && other != name && !is_ascii(other)) {
            return true;
        }
    }
    return false;
}

// Follows one reading to its real place.
class Walk {
  public:
    explicit Walk(std::string_view path) { push_segments(left_, path); }

    Result<std::string> end() {
        while (!left_.empty()) {
            const std::string segment = std::move(left_.front());
            left_.pop_front();
            if (segment == "..") {
                step_up(place_);
            } else if (segment != ".") {
                MOSAIC_TRY(step(segment));
            }
        }
        return place_.empty() ? "/" : place_;
    }

  private:
    Result<void> step(const std::string& segment) {
        const std::string next = place_ + "/" + segment;

        struct stat facts {};

        const bool there = ::lstat(next.c_str(), &facts) == 0;
        if (!there && errno != ENOENT && errno != ENOTDIR) {
            return fail_sys(errno, "can't be followed: " + next);
        }
        if ((!there || !is_ascii(segment)) && may_mean_a_link(place_, segment)) {
            return fail(Code::unsafe,
                        "may be taken for a link with a similar name in " +
                            (place_.empty() ? std::string("/") : place_));
        }
        if (!there || !S_ISLNK(facts.st_mode)) {
            place_ = next;
            return {};
        }
        return follow(next);
    }

    Result<void> follow(const std::string& link) {
        // Those of /proc mean something else in each process.
        if (is_within(link, "/proc")) {
            return fail(Code::unsafe, "goes through a link of /proc");
        }
        if (++links_ > kLinksMax) {
            return fail(Code::unsafe, "goes through too many links");
        }
        std::string target(PATH_MAX, '\0');
        const ssize_t n = ::readlink(link.c_str(), target.data(), target.size());
        if (n <= 0) {
            return fail_sys(errno, "can't be followed: " + link);
        }
        target.resize(static_cast<size_t>(n));
        if (target.front() == '/') {
            place_.clear();
        }
        push_segments(left_, target);
        return {};
    }

    std::deque<std::string> left_;
    std::string place_;  // real so far, without a final slash; empty: the root
    int links_ = 0;
};

}  // namespace

Result<std::vector<std::string>> places_of(std::string_view path, const PathSetting& setting) {
    MOSAIC_TRY(check_text(path));
    MOSAIC_TRY_ASSIGN(const std::vector<std::string> readings, readings_of(path, setting));
    std::vector<std::string> out;
    for (const std::string& reading : readings) {
        for (const std::string& one : {reading, without_dots(reading)}) {
            MOSAIC_TRY_ASSIGN(std::string place, Walk(one).end());
            if (std::find(out.begin(), out.end(), place) == out.end()) {
                out.push_back(std::move(place));
            }
        }
    }
    return out;
}

bool is_within(std::string_view path, std::string_view directory) {
    return path.substr(0, directory.size()) == directory &&
           (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace mosaic::runner
