// mosaic service install: the systemd user unit.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/service_unit.h"
#include "process/files.h"
#include "process/own_program.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

namespace fs = std::filesystem;

// "--NAME PATH" or "--NAME=PATH" of a program of a switched-on module, as it was given.
struct GivenProgram {
    std::string name;
    std::string path;
};

bool is_executable_file(const std::string& path) {
    struct stat facts {};

    return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
}

// What the shell would run, by its name in PATH and not followed any further.
std::string in_path(const std::string& path, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        for (size_t at = 0; at <= path.size();) {
            const size_t end = std::min(path.find(':', at), path.size());
            std::string candidate = path.substr(at, end - at) + "/" + name;
            if (candidate[0] == '/' && is_executable_file(candidate)) {
                return candidate;
            }
            at = end + 1;
        }
    }
    return {};
}

Result<std::vector<GivenProgram>> given_programs(const std::vector<std::string>& words) {
    std::vector<GivenProgram> out;
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        const size_t equals = word.find('=');
        const bool whole = equals != std::string::npos;
        if (!word.starts_with("--") || word.size() < 3 || equals == 2 ||
            (!whole && i + 1 >= words.size())) {
            return fail(Code::invalid, "expected --PROGRAM PATH, found \"" + word + "\"");
        }
        out.push_back({word.substr(2, whole ? equals - 2 : equals),
                       whole ? word.substr(equals + 1) : words[++i]});
    }
    return out;
}

Result<PinnedProgram> pin(const harness::Program& program,
                          std::vector<GivenProgram>& given,
                          const std::string& path) {
    PinnedProgram out{program.variable, program.names.front(), ""};
    const auto hit = std::find_if(given.begin(), given.end(), [&](const GivenProgram& one) {
        return std::find(program.names.begin(), program.names.end(), one.name) !=
               program.names.end();
    });
    if (hit == given.end()) {
        out.path = in_path(path, program.names);
        return out;
    }
    out.path = hit->path;
    given.erase(hit);
    if (!is_plain_path(out.path)) {
        return fail(Code::invalid,
                    "--" + out.name + ": " + out.path +
                        ": expected an absolute path of A-Z a-z 0-9 / . _ + - only");
    }
    if (!is_executable_file(out.path)) {
        return fail(Code::invalid, "--" + out.name + ": " + out.path + " is no executable file");
    }
    return out;
}

// Each program that the switched-on modules let somebody pin, once.
Result<std::vector<PinnedProgram>> pin_all(const harness::ModuleSet& modules,
                                           std::vector<GivenProgram> given,
                                           const std::string& path) {
    std::vector<PinnedProgram> out;
    for (const auto& [name, module] : modules.modules) {
        std::vector<harness::Program> programs = module.helpers;
        if (module.program) {
            programs.insert(programs.begin(), *module.program);
        }
        for (const harness::Program& program : programs) {
            const bool known = std::any_of(out.begin(), out.end(), [&](const PinnedProgram& one) {
                return one.variable == program.variable;
            });
            if (program.variable.empty() || program.names.empty() || known) {
                continue;
            }
            MOSAIC_TRY_ASSIGN(PinnedProgram pinned, pin(program, given, path));
            out.push_back(std::move(pinned));
        }
    }
    if (!given.empty()) {
        return fail(Code::invalid,
                    "--" + given.front().name +
                        ": no switched-on harness has such a program (`mosaic plugins` shows "
                        "which are on)");
    }
    return out;
}

std::string variable(const Context& context, const std::string& name) {
    const auto hit = context.env.find(name);
    return hit == context.env.end() ? std::string() : hit->second;
}

// The system file where it isn't the one that the service finds by itself: its user manager knows
// neither our --config nor our environment.
std::string unusual_config(const Context& context, const config::SystemConfig& system) {
    const std::string usual = variable(context, "HOME") + "/.config/mosaic/system.json";
    const fs::path file = fs::path(system.file).lexically_normal();
    return system.file.empty() || file == fs::path(usual).lexically_normal() ? "" : file.string();
}

// The unit's data root is the state directory's. Commands look below dataRoot.
void warn_of_data_root(const Context& context, const config::SystemConfig& system) {
    const auto usual = config::parse_system("{}", "/system.json", context.env);
    if (usual && usual->data_root != system.data_root) {
        complain("note: dataRoot is " + system.data_root +
                 ", and the unit says --data %S/mosaic/%i: make that " + system.data_root +
                 "/%i in it, or commands won't find its host");
    }
}

Result<std::string> unit_text(const Context& context, const config::SystemConfig& system) {
    ServiceUnit unit;
    unit.path = context.env.contains("PATH") ? variable(context, "PATH") : "/usr/bin:/bin";
    unit.pm = context.options.pm;
    unit.config = unusual_config(context, system);
    MOSAIC_TRY_ASSIGN(const std::string own, process::own_executable());
    unit.host = own.substr(0, own.rfind('/')) + "/mosaic-host";
    if (!is_executable_file(unit.host)) {
        return fail(Code::missing, unit.host + " is missing; it belongs beside mosaic");
    }
    MOSAIC_TRY_ASSIGN(auto given, given_programs(context.options.names));
    MOSAIC_TRY_ASSIGN(unit.programs, pin_all(load_modules(system), std::move(given), unit.path));
    return service_unit(unit);
}

Result<std::string> write_unit(const Context& context, const std::string& text) {
    std::string directory = variable(context, "XDG_CONFIG_HOME");
    if (directory.empty() || directory[0] != '/') {
        directory = variable(context, "HOME") + "/.config";
    }
    if (directory[0] != '/') {
        return fail(Code::missing, "HOME is not set to an absolute path");
    }
    directory += "/systemd/user";
    MOSAIC_TRY(process::make_directories(directory));
    MOSAIC_TRY_ASSIGN(const UniqueFd parent, process::open_directory(directory));
    MOSAIC_TRY(process::replace_file(parent.get(), std::string(kServiceUnitName), text, 0644));
    return directory + "/" + std::string(kServiceUnitName);
}

}  // namespace

int run_service_install(const Context& context) {
    const auto system = config::load_system(context.options.config, context.env);
    if (!system) {
        report(context, system.error());
        return exit_code::kRefused;
    }
    const auto text = unit_text(context, *system);
    if (!text) {
        return report(context, text.error());
    }
    warn_of_data_root(context, *system);
    if (context.options.print_only) {
        return finish(print(*text));
    }
    const auto written = write_unit(context, *text);
    if (!written) {
        return report(context, written.error());
    }
    if (context.options.json) {
        json::Value out;
        out.set("wrote", *written);
        return finish(print_json(out));
    }
    return finish(print("wrote  " + one_line(*written) +
                        "\n\nNext: systemctl --user daemon-reload; systemctl --user enable --now "
                        "mosaic-host@BUSINESS\n"));
}

}  // namespace mosaic::cli
