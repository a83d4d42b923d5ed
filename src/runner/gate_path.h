#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Where a path argument of a file tool leads. Harnesses differ in how they read one: some drop a
// leading "@", expand "~", take ".." out before they follow links, or try a name in another Unicode
// normal form when there is none. So each way of reading it is followed, and what can't be followed
// with certainty is an error.

namespace mosaic::runner {

struct PathSetting {
    std::string_view workspace;  // real path; relative paths start here
    std::string_view home;       // what "~" stands for; empty: nothing
};

// All real paths that the argument may mean, at least one. The last segments of a place need not
// exist; all links on the way, dangling ones too, are followed. An error says, for a model, what is
// wrong with the argument.
[[nodiscard]] Result<std::vector<std::string>> places_of(std::string_view path,
                                                         const PathSetting& setting);

// Whether `path` is `directory` or lies in it. Both are absolute and real.
[[nodiscard]] bool is_within(std::string_view path, std::string_view directory);

}  // namespace mosaic::runner
