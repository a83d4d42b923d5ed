#include "harness/route.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "process/files.h"

namespace mosaic::harness {
namespace {

constexpr const char* kSecretsHint =
    "the service loads them at its start from ~/.config/mosaic/secrets/session.env (lines "
    "NAME=value; "
    "a line that begins with export is ignored)";

enum class Variable {
    unset,
    blank,
    unfit,  // holds a control character, as of a line end that a file left in it
    set,
};

Variable look_at(const config::Environment& env, const std::string& name) {
    const auto found = env.find(name);
    if (found == env.end()) {
        return Variable::unset;
    }
    const std::string& value = found->second;
    const bool blank =
        std::all_of(value.begin(), value.end(), [](char c) { return c == ' ' || c == '\t'; });
    if (blank) {
        return Variable::blank;
    }
    const bool unfit = std::any_of(value.begin(), value.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    return unfit ? Variable::unfit : Variable::set;
}

// "; A is empty; B holds a control character" for what stands there and doesn't count.
std::string describe_bad(const std::vector<CredentialSet>& sets, const config::Environment& env) {
    std::string out;
    std::vector<std::string> told;
    for (const CredentialSet& set : sets) {
        for (const std::string& name : set) {
            const Variable state = look_at(env, name);
            if (std::find(told.begin(), told.end(), name) != told.end()) {
                continue;
            }
            told.push_back(name);
            if (state == Variable::blank) {
                out += "; " + name + " is empty";
            } else if (state == Variable::unfit) {
                out += "; " + name + " holds a control character";
            }
        }
    }
    return out;
}

RouteRefusal refuse(Refusal code, std::string reason) {
    return RouteRefusal{code, std::move(reason)};
}

const Provider* provider_of(const Module& module, const std::string& name) {
    const auto named = module.providers.find(name);
    if (named != module.providers.end()) {
        return &named->second;
    }
    return module.any_provider ? &*module.any_provider : nullptr;
}

std::string names_of(const auto& map) {
    std::string out;
    for (const auto& [name, value] : map) {
        out += (out.empty() ? "" : ", ") + name;
    }
    return out;
}

// Whether the module takes this route of this instance at all; empty: it does.
std::string module_refusal(const Module& module,
                           const config::Route& route,
                           const config::Instance& instance) {
    if (provider_of(module, route.provider) == nullptr) {
        return "harness module " + module.name + " has no provider " + route.provider +
               "; it has " + names_of(module.providers);
    }
    for (const std::string& var : module.required_vars) {
        const auto found = instance.vars.find(var);
        if (found == instance.vars.end() || found->second.empty()) {
            return "harness module " + module.name + " needs the var " + var + " of " +
                   instance.name;
        }
    }
    return {};
}

// Fills in the variables to pass; the refusal's reason when the provider's credential is not there.
std::optional<std::string> take_credential(const Provider& provider,
                                           const config::Environment& env,
                                           ChosenRoute& out) {
    const auto is_set = [&](const std::string& name) {
        return look_at(env, name) == Variable::set;
    };
    if (!provider.credentials.empty()) {
        const auto complete = std::find_if(
            provider.credentials.begin(),
            provider.credentials.end(),
            [&](const CredentialSet& set) { return std::all_of(set.begin(), set.end(), is_set); });
        if (complete == provider.credentials.end()) {
            return "no session credential for provider " + out.route.provider + ": set one of " +
                   describe_sets(provider.credentials) + describe_bad(provider.credentials, env) +
                   "; " + kSecretsHint;
        }
        out.credential = *complete;
        out.variables = *complete;
    }
    for (const std::string& name : provider.variables) {
        const Variable state = look_at(env, name);
        if (state == Variable::unfit) {
            return name + " holds a control character; " + kSecretsHint;
        }
        if (state == Variable::set &&
            std::find(out.variables.begin(), out.variables.end(), name) == out.variables.end()) {
            out.variables.push_back(name);
        }
    }
    return {};
}

// Why the file isn't the native program itself; empty: it is.
std::string shim_problem(const Program& program, const std::string& real, bool pinned) {
    const std::string advice =
        program.variable.empty() ? "" : "; set " + program.variable + " to the program itself";
    const std::string name = real.substr(real.rfind('/') + 1);
    const auto& names = program.names;
    if (!pinned && std::find(names.begin(), names.end(), name) == names.end()) {
        return "leads to " + real + ", which chooses among versions" + advice;
    }
    const UniqueFd fd(::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 2> head{};
    if (fd.valid() && ::read(fd.get(), head.data(), head.size()) == 2 && head[0] == '#' &&
        head[1] == '!') {
        return "is a script, as version managers have them" + advice;
    }
    return {};
}

// A regular file, links followed, that we may execute.
Result<FoundProgram> usable_program(const Program& program,
                                    const std::string& path,
                                    const std::string& called,
                                    bool pinned) {
    Result<std::string> real = process::real_path(path);
    if (!real) {
        const int sys = real.error().sys;
        return fail(Code::missing,
                    called + ": " + (sys != 0 ? errno_text(sys) : real.error().text));
    }

    struct stat facts {};

    if (::stat(real->c_str(), &facts) != 0) {
        return fail(Code::missing, called + ": " + errno_text(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        return fail(Code::missing, called + ": not a regular file");
    }
    if (::faccessat(AT_FDCWD, real->c_str(), X_OK, AT_EACCESS) != 0) {
        return fail(Code::missing, called + ": " + errno_text(errno));
    }
    if (program.native) {
        if (const std::string problem = shim_problem(program, *real, pinned); !problem.empty()) {
            return fail(Code::missing, called + ": " + problem);
        }
    }
    return FoundProgram{path, std::move(*real)};
}

// The absolute directories of PATH: a relative one means another place for every caller.
std::vector<std::string> path_entries(const config::Environment& env) {
    std::vector<std::string> out;
    const auto path = env.find("PATH");
    std::string_view rest = path == env.end() ? std::string_view() : path->second;
    while (!rest.empty()) {
        const size_t colon = std::min(rest.find(':'), rest.size());
        if (rest.starts_with('/')) {
            out.emplace_back(rest.substr(0, colon));
        }
        rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return out;
}

bool is_preflight(Refusal code) {
    return code == Refusal::no_session_credential || code == Refusal::harness_missing;
}

}  // namespace

std::string describe_sets(const std::vector<CredentialSet>& sets) {
    std::string out;
    for (const CredentialSet& set : sets) {
        out += out.empty() ? "" : ", ";
        for (size_t i = 0; i < set.size(); ++i) {
            out += (i == 0 ? "" : " with ") + set[i];
        }
    }
    return out;
}

Result<FoundProgram> find_program(const Program& program, const config::Environment& host_env) {
    const auto pinned = host_env.find(program.variable);
    if (!program.variable.empty() && pinned != host_env.end() && !pinned->second.empty()) {
        const std::string called = pinned->second + " (" + program.variable + ")";
        if (!pinned->second.starts_with('/')) {
            return fail(Code::missing, called + ": expected an absolute path");
        }
        return usable_program(program, pinned->second, called, true);
    }
    // As a shell does it, an entry that can't be run is passed over; when nothing else is found it
    // is what the error tells of.
    std::string first_problem;
    for (const std::string& directory : path_entries(host_env)) {
        for (const std::string& name : program.names) {
            const std::string candidate = directory + "/" + name;

            struct stat facts {};

            if (::lstat(candidate.c_str(), &facts) != 0) {
                continue;
            }
            Result<FoundProgram> found = usable_program(program, candidate, candidate, false);
            if (found) {
                return found;
            }
            if (first_problem.empty()) {
                first_problem = found.error().text;
            }
        }
    }
    if (!first_problem.empty()) {
        return fail(Code::missing, first_problem);
    }
    std::string names;
    for (const std::string& name : program.names) {
        names += (names.empty() ? "" : " or ") + name;
    }
    const std::string pin = program.variable.empty()
                                ? ""
                                : program.variable + " is not set" + (names.empty() ? "" : " and ");
    return fail(Code::missing, pin + (names.empty() ? "" : names + " is in no directory of PATH"));
}

std::optional<std::string> take_programs(const Module& module,
                                         const config::Environment& env,
                                         ChosenRoute& out) {
    if (module.program) {
        Result<FoundProgram> found = find_program(*module.program, env);
        if (!found) {
            return found.error().text;
        }
        out.program = std::move(*found);
    }
    for (const Program& helper : module.helpers) {
        Result<FoundProgram> found = find_program(helper, env);
        if (!found) {
            return found.error().text;
        }
        out.helpers.emplace(helper.name, std::move(*found));
    }
    return {};
}

std::vector<std::string> version_command(const ChosenRoute& route) {
    if (!route.program || route.module == nullptr || !route.module->program ||
        route.module->program->version_args.empty()) {
        return {};
    }
    const Program& program = *route.module->program;
    std::vector<std::string> out;
    if (!program.interpreter.empty()) {
        out.push_back(route.helpers.at(program.interpreter).real);
    }
    out.push_back(route.program->real);
    out.insert(out.end(), program.version_args.begin(), program.version_args.end());
    return out;
}

RouteChoice check_route(const config::Route& route,
                        const config::Instance& instance,
                        const ModuleSet& modules,
                        const config::Environment& host_env) {
    if (const auto problem = modules.problems.find(route.harness);
        problem != modules.problems.end()) {
        return refuse(Refusal::harness_refused, problem->second);
    }
    const auto found = modules.modules.find(route.harness);
    if (found == modules.modules.end()) {
        return refuse(Refusal::harness_off,
                      "harness module " + route.harness + " is not switched on in plugins.harness");
    }
    const Module& module = found->second;
    if (std::string reason = module_refusal(module, route, instance); !reason.empty()) {
        return refuse(Refusal::harness_refused, std::move(reason));
    }
    if (!module.thinking.contains(route.thinking)) {
        return refuse(Refusal::thinking_unsupported,
                      "harness module " + module.name + " has no thinking level " + route.thinking +
                          "; it has " + names_of(module.thinking));
    }
    ChosenRoute out;
    out.route = route;
    out.module = &module;
    out.reason = "primary";
    const Provider* provider = provider_of(module, route.provider);
    if (std::optional<std::string> reason = take_credential(*provider, host_env, out)) {
        return refuse(Refusal::no_session_credential, std::move(*reason));
    }
    if (std::optional<std::string> reason = take_programs(module, host_env, out)) {
        return refuse(Refusal::harness_missing, std::move(*reason));
    }
    if (module.account) {
        for (const std::string& name : out.credential) {
            out.account += (out.account.empty() ? "" : "+") + name;
        }
    }
    return out;
}

RouteChoice choose_route(const config::Instance& instance,
                         const ModuleSet& modules,
                         const config::Environment& host_env) {
    if (!instance.route) {
        return refuse(
            Refusal::no_route,
            instance.name + " has no complete route: set harness, provider, model and thinking");
    }
    RouteChoice primary = check_route(*instance.route, instance, modules, host_env);
    const RouteRefusal* refused = std::get_if<RouteRefusal>(&primary);
    if (refused == nullptr || !is_preflight(refused->code) || !instance.fallback) {
        return primary;
    }
    RouteChoice second = check_route(*instance.fallback, instance, modules, host_env);
    if (ChosenRoute* chosen = std::get_if<ChosenRoute>(&second)) {
        chosen->reason = "fallback: " + refused->reason;
        return second;
    }
    const RouteRefusal& last = std::get<RouteRefusal>(second);
    return refuse(last.code,
                  "fallback: " + last.reason + "; primary: " +
                      std::string(to_string(refused->code)) + " (" + refused->reason + ")");
}

}  // namespace mosaic::harness
