#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "wire/config_messages.h"

// A change of a configuration file, as text to text. Pure. The result has every member that the
// text had, in its order, with the changed values; white space is ours. It is checked whole, as a
// file that is read: what would be no configuration is an error, and nothing comes of it.
//
// Code::missing: the instance isn't a role of the business; the text says so. Code::invalid: the
// file wouldn't hold, with its path and JSON pointer.

namespace mosaic::config {

// `path` is the file's, for errors and for relative paths in it.
[[nodiscard]] Result<std::string> change_routes(std::string_view text,
                                                const std::string& path,
                                                const wire::RoutesSetArgs& change);
[[nodiscard]] Result<std::string> change_limits(std::string_view text,
                                                const std::string& path,
                                                const wire::LimitsSetArgs& change);
[[nodiscard]] Result<std::string> change_instances(std::string_view text,
                                                   const std::string& path,
                                                   const wire::InstancesSetArgs& change);

// Of the system file; an empty text is a file that doesn't exist yet.
[[nodiscard]] Result<std::string> change_plugins(std::string_view text,
                                                 const std::string& path,
                                                 const Environment& env,
                                                 const wire::PluginsSetArgs& change);

// What is to be checked of a change before it is written: a route that is another than before, or
// of an instance that couldn't be launched before.
struct ChangedRoute {
    const Instance* instance = nullptr;  // of `after`
    const Route* route = nullptr;        // null: it has none any more, or only in part
    bool fallback = false;
};

// In the order of the instances' names, an instance's route before its fallback.
[[nodiscard]] std::vector<ChangedRoute> changed_routes(const Business& before,
                                                       const Business& after);

}  // namespace mosaic::config
