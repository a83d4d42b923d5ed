#include "cli/service_unit.h"

#include <algorithm>

#include "base/utf8.h"

namespace mosaic::cli {
namespace {

bool is_plain_character(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("/._+-").find(c) != std::string_view::npos;
}

bool has_control_characters(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
}

// One value between double quotes: systemd unescapes \ and ", and % begins a specifier.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        } else if (c == '%') {
            out += '%';
        }
        out += c;
    }
    return out + '"';
}

std::string program_line(const PinnedProgram& program) {
    if (program.path.empty()) {
        return "# " + program.variable + ": no " + program.name +
               " was found when this was written; `mosaic service install` again once there is "
               "one\n";
    }
    return "Environment=" + program.variable + "=" + program.path + "\n";
}

}  // namespace

bool is_plain_path(std::string_view path) {
    return !path.empty() && path[0] == '/' &&
           std::all_of(path.begin(), path.end(), is_plain_character);
}

Result<std::string> service_unit(const ServiceUnit& unit) {
    if (!is_plain_path(unit.host)) {
        return fail(Code::invalid,
                    unit.host + ": a unit can't name it; expected only A-Z a-z 0-9 / . _ + -");
    }
    if (has_control_characters(unit.path)) {
        return fail(Code::invalid, "PATH has a control character");
    }
    if (has_control_characters(unit.config)) {
        return fail(Code::invalid, "the system file's path has a control character");
    }
    for (const std::string* text : {&unit.path, &unit.config}) {
        if (valid_utf8_prefix(*text) != text->size()) {
            return fail(Code::invalid,
                        (text == &unit.path ? "PATH" : "the system file's path") +
                            std::string(" is no UTF-8; systemd would leave it out"));
        }
    }
    std::string programs;
    for (const PinnedProgram& program : unit.programs) {
        if (!program.path.empty() && !is_plain_path(program.path)) {
            return fail(Code::invalid,
                        program.name + ": " + program.path +
                            ": expected an absolute path of A-Z a-z 0-9 / . _ + - only");
        }
        programs += program_line(program);
    }
    // 1,000 sessions: 64 processes each, and 8 descriptors of the host's. What a stop may take is
    // stopTimeoutMs and the recording of the ends.
    return "# Written by `mosaic service install`, which replaces it when it is called again.\n"
           "[Unit]\n"
           "Description=mosaic-host of the business %i\n"
           "\n"
           "[Service]\n"
           "Type=notify\n"
           "ExecStart=" +
           unit.host + " --business %i --data %S/mosaic/%i" + (unit.pm ? " --pm" : "") +
           "\n"
           "ExecReload=/bin/kill -HUP $MAINPID\n"
           "EnvironmentFile=-%h/.config/mosaic/secrets/session.env\n"
           "Environment=" +
           quoted("PATH=" + unit.path) + "\n" +
           (unit.config.empty() ? ""
                                : "Environment=" + quoted("MOSAIC_CONFIG=" + unit.config) + "\n") +
           programs +
           "Restart=on-failure\n"
           "RestartSec=1\n"
           "RestartPreventExitStatus=2 3 4\n"
           "KillMode=mixed\n"
           "TimeoutStopSec=60\n"
           "OOMPolicy=continue\n"
           "Delegate=yes\n"
           "TasksMax=64000\n"
           "LimitNOFILE=65536\n"
           "\n"
           "[Install]\n"
           "WantedBy=default.target\n";
}

}  // namespace mosaic::cli
