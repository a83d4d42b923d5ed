#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The systemd user unit that keeps a business's host running. Pure: text only (systemd.unit(5),
// systemd.service(5), systemd.exec(5)).

namespace mosaic::cli {

// A program of a harness that the unit names, so that the service runs the one that the installing
// shell would, whatever PATH becomes.
struct PinnedProgram {
    std::string variable;  // MOSAIC_…_BIN, of the harness module
    std::string name;      // what people call it
    std::string path;      // absolute; empty: none was found, the unit says so in a comment
};

struct ServiceUnit {
    std::string host;    // mosaic-host's absolute path
    std::string path;    // PATH of the installing shell
    bool pm = false;     // launch the PM at the start
    std::string config;  // the system file's absolute path; empty: the default one
    std::vector<PinnedProgram> programs;
};

// File name of the template unit: `systemctl --user start mosaic-host@acme`.
constexpr std::string_view kServiceUnitName = "mosaic-host@.service";

// Whether a path can stand in the unit without any quoting: absolute, and nothing but letters,
// digits and / . _ + -.
[[nodiscard]] bool is_plain_path(std::string_view path);

// The whole file. Code::invalid when something can't stand in a unit: a control character in PATH
// or the system file's path, a program that isn't plain.
[[nodiscard]] Result<std::string> service_unit(const ServiceUnit& unit);

}  // namespace mosaic::cli
