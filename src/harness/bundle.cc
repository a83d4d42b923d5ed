#include "harness/bundle.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/utf8.h"
#include "harness/typed_tools.h"
#include "wire/json.h"
#include "wire/limits.h"

namespace mosaic::harness {
namespace {

using json::Array;
using json::Object;
using json::Value;

Array names_array(const std::vector<std::string>& names) {
    Array out;
    for (const std::string& name : names) {
        out.emplace_back(name);
    }
    return out;
}

std::string joined(const std::vector<std::string>& names, std::string_view between = ",") {
    std::string out;
    for (const std::string& name : names) {
        out += out.empty() ? "" : between;
        out += name;
    }
    return out;
}

// The harness's names of the granted built-in tools.
std::vector<std::string> built_in_names(const RunFacts& facts) {
    std::vector<std::string> out;
    for (const std::string& granted : facts.instance.tools) {
        const auto tool = facts.route.module->tools.find(granted);
        if (tool == facts.route.module->tools.end()) {
            continue;
        }
        for (const std::string& name : tool->second.names) {
            if (std::find(out.begin(), out.end(), name) == out.end()) {
                out.push_back(name);
            }
        }
    }
    return out;
}

// The harness's names of the granted typed tools.
std::vector<std::string> typed_names(const RunFacts& facts) {
    std::vector<std::string> out = granted_typed(facts);
    for (std::string& name : out) {
        name.insert(0, facts.route.module->typed_prefix);
    }
    return out;
}

// A UUID that means this run, or this thread in all its runs, so that a harness that names its
// sessions by one finds a thread's again. Version 8, variant 10 (RFC 9562).
std::string session_uuid(const RunFacts& facts) {
    const std::string what =
        facts.seat.thread.empty()
            ? "run " + facts.run
            : "thread " + facts.business.id + " " + facts.seat.instance + " " + facts.seat.thread;
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(
        digest.data(), reinterpret_cast<const unsigned char*>(what.data()), what.size());
    digest[6] = static_cast<unsigned char>((digest[6] & 0x0fU) | 0x80U);
    digest[8] = static_cast<unsigned char>((digest[8] & 0x3fU) | 0x80U);
    constexpr const char* kDigits = "0123456789abcdef";
    std::string out;
    for (size_t i = 0; i < 16; ++i) {
        out += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        out += kDigits[digest[i] >> 4U];
        out += kDigits[digest[i] & 15U];
    }
    return out;
}

std::string dashed(std::string_view path) {
    std::string out;
    for (const char c : path) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        out += plain ? c : '-';
    }
    return out;
}

// Where the module's directory `name` lies: in the thread's store, else in the run's own home.
std::string kept_directory(const RunFacts& facts, const std::string& name) {
    const std::string& parent =
        facts.paths.thread_store.empty() ? facts.paths.home : facts.paths.thread_store;
    return parent + "/" + name;
}

// The outermost directory with this name above the program; empty when there is none.
std::string program_ancestor(const ChosenRoute& route, std::string_view name) {
    if (!route.program) {
        return {};
    }
    const std::string& path = route.program->real;
    const std::string segment = "/" + std::string(name) + "/";
    const size_t at = path.find(segment);
    return at == std::string::npos ? std::string() : path.substr(0, at + segment.size() - 1);
}

void add_list(Values& values, const std::string& name, const std::vector<std::string>& list) {
    values[name] = joined(list);
    values[name + "Json"] = json::dump(Value(names_array(list)));
}

// Of the programs alone.
Values program_values(const ChosenRoute& route) {
    Values out = {
        {"program", route.program ? route.program->real : std::string()},
        {"programFound", route.program ? route.program->found : std::string()},
    };
    for (const auto& [name, helper] : route.helpers) {
        out["helper:" + name] = helper.real;
    }
    return out;
}

constexpr std::string_view kAncestor = "programAncestor:";

Values values_of(const RunFacts& facts) {
    const ChosenRoute& route = facts.route;
    const Module& module = *route.module;
    Values out = {
        {"business", facts.business.id},
        {"instance", facts.seat.instance},
        {"thread", facts.seat.thread},
        {"run", facts.run},
        {"human", facts.business.human},
        {"provider", route.route.provider},
        {"model", route.route.model},
        {"thinking", module.thinking.at(route.route.thinking)},
        {"workspace", facts.paths.workspace},
        {"workspaceDashed", dashed(facts.paths.workspace)},
        {"runDir", facts.paths.run_dir},
        {"bundle", facts.paths.bundle},
        {"home", facts.paths.home},
        {"tmp", "/tmp"},
        {"sessionDir", facts.paths.session_dir},
        {"sessionUuid", session_uuid(facts)},
        {"module", kInsideModule},
        {"runner", kInsideRunner},
        {"gateTimeoutMs", std::to_string(module.gate_timeout_ms)},
        {"gateTimeoutSeconds", std::to_string((module.gate_timeout_ms + 999) / 1000)},
    };
    std::vector<std::string> all = built_in_names(facts);
    const std::vector<std::string> typed = typed_names(facts);
    add_list(out, "builtIn", all);
    add_list(out, "typed", typed);
    all.insert(all.end(), typed.begin(), typed.end());
    add_list(out, "tools", all);
    for (const std::string& name : module.thread_directories) {
        out["thread:" + name] = kept_directory(facts, name);
    }
    out.merge(program_values(route));
    return out;
}

// Fills templates for one run; the values are made once.
class Renderer {
  public:
    explicit Renderer(const RunFacts& facts) : facts_(facts), values_(values_of(facts)) {}

    [[nodiscard]] std::string render(const Template& text, Escape escape) {
        for (const std::string& name : text.names()) {
            if (name.starts_with(kAncestor)) {
                values_[name] = program_ancestor(facts_.route, name.substr(kAncestor.size()));
            }
        }
        return text.render(values_, escape);
    }

  private:
    const RunFacts& facts_;
    Values values_;
};

std::vector<HostPath> programs_of(const ChosenRoute& route) {
    const std::string& name = route.module->name;
    std::vector<HostPath> out;
    if (route.program) {
        out.push_back({route.program->found, "the program of harness " + name, false});
    }
    for (const auto& [helper_name, helper] : route.helpers) {
        out.push_back({helper.found, helper_name + " for harness " + name, false});
    }
    return out;
}

// ---- the files ----

std::string prompt(const RunFacts& facts) {
    std::string out = "# Role " + facts.seat.instance + " of " + facts.business.id + "\n\n";
    out += "You are the role `" + facts.seat.instance + "`";
    if (!facts.seat.thread.empty()) {
        out += ", thread `" + facts.seat.thread + "`,";
    }
    out += " of the business `" + facts.business.id + "`. Its human is `" + facts.business.human +
           "`.\n";
    const std::string workspace = escape_path(facts.paths.workspace);
    out +=
        "Your workspace is `" + workspace + "`" +
        (workspace == facts.paths.workspace ? "" : " (escaped; `$MOSAIC_WORKSPACE` is its path)") +
        ". What you write elsewhere is lost.\n";
    out +=
        "Each turn brings you one message. Your last answer of the turn is sent to its sender.\n";
    const std::vector<std::string> typed = typed_names(facts);
    if (!typed.empty()) {
        out += "Beside your other tools you have: " + joined(typed, ", ") + ".\n";
    }
    out += "\n" + facts.contract;
    if (!out.ends_with('\n')) {
        out += '\n';
    }
    return out;
}

// The names of the programs that the run needs of the host.
std::vector<std::string> needs(const ChosenRoute& route) {
    std::vector<std::string> out;
    if (route.program) {
        out.push_back(route.program->found);
    }
    for (const auto& [name, helper] : route.helpers) {
        out.push_back(helper.found);
    }
    return out;
}

std::string policy(const RunFacts& facts) {
    Value out;
    out.set("harness", facts.route.module->name);
    out.set("workspace", facts.paths.workspace);
    out.set("tools", names_array(facts.instance.tools));
    out.set("typed", names_array(granted_typed(facts)));
    out.set("network", to_string(facts.instance.network));
    out.set("needs", names_array(needs(facts.route)));
    out.set("credentials", names_array(facts.route.credential));
    return json::dump_pretty(out);
}

// What decides each call of a tool: read by `mosaic-runner gate`.
std::string gate_file(const RunFacts& facts) {
    const Module& module = *facts.route.module;
    bool shell = false;
    Object tools;
    for (const std::string& granted : facts.instance.tools) {
        const auto tool = module.tools.find(granted);
        if (tool == module.tools.end()) {
            continue;
        }
        shell = shell || tool->second.shell;
        for (const std::string& name : tool->second.names) {
            tools.emplace_back(name,
                               Object{{"paths", names_array(tool->second.paths)},
                                      {"writes", tool->second.writes}});
        }
    }
    Value out;
    out.set("workspace", facts.paths.workspace);
    out.set("toolPointer", module.gate->tool);
    out.set("inputPointer", module.gate->input);
    out.set("allow", module.gate->allow);
    out.set("deny", module.gate->deny);
    out.set("tools", std::move(tools));
    out.set("typed", names_array(typed_names(facts)));
    // Whoever has a shell can write there anyway.
    out.set("controlPaths", names_array(shell ? std::vector<std::string>{} : module.control_paths));
    return json::dump_pretty(out);
}

Value route_value(const config::Route& route) {
    return Object{{"harness", route.harness},
                  {"provider", route.provider},
                  {"model", route.model},
                  {"thinking", route.thinking}};
}

Value limits_value(const wire::SessionLimits& l) {
    return Object{{"turnSeconds", l.turn_seconds},
                  {"turnGraceMs", l.turn_grace_ms},
                  {"replyBytes", l.reply_bytes},
                  {"brokerRetries", l.broker_retries},
                  {"processes", l.processes},
                  {"openFiles", l.open_files}};
}

Value text_or_null(const std::string& text) {
    return text.empty() ? Value() : Value(text);
}

}  // namespace

std::vector<std::string> granted_typed(const RunFacts& facts) {
    const std::vector<std::string>& offered = facts.route.module->typed;
    std::vector<std::string> out;
    for (const std::string& name : facts.instance.typed) {
        if (std::find(offered.begin(), offered.end(), name) != offered.end()) {
            out.push_back(name);
        }
    }
    return out;
}

Result<std::vector<BundleContent>> bundle_files(const RunFacts& facts) {
    std::vector<BundleContent> out;
    out.push_back({"prompt.md", prompt(facts)});
    out.push_back({"policy.json", policy(facts)});
    out.push_back({"tools.json", json::dump_pretty(describe_typed_tools(granted_typed(facts)))});
    if (facts.route.module->gate) {
        out.push_back({"gate.json", gate_file(facts)});
    }
    Renderer renderer(facts);
    for (const BundleFile& file : facts.route.module->bundle_files) {
        std::string content = renderer.render(file.content, escape_for(file.name));
        if (file.name.ends_with(".json")) {
            const Result<Value> value =
                json::parse(content, json::ParseOptions{.depth_max = limits::kFileDepthMax});
            if (!value) {
                return fail(Code::invalid,
                            "harness module " + facts.route.module->name + ": bundle file " +
                                file.name + " is not JSON: " + value.error().text);
            }
        }
        out.push_back({file.name, std::move(content)});
    }
    return out;
}

wire::SessionFile session_file(const RunFacts& facts) {
    const ChosenRoute& route = facts.route;
    const Module& module = *route.module;
    wire::SessionFile out;
    out.business = facts.business.id;
    out.seat = facts.seat;
    out.run = facts.run;
    out.human = facts.business.human;
    out.harness = route.route.harness;
    out.provider = route.route.provider;
    out.model = route.route.model;
    out.thinking = module.thinking.at(route.route.thinking);
    out.broker_socket = facts.paths.broker_socket;
    out.launch_socket = facts.paths.launch_socket;
    out.workspace = facts.paths.workspace;
    out.session_dir = facts.paths.session_dir;
    out.adapter = std::string(kInsideModule) + "/" + module.adapter;
    out.bundle_prompt = facts.paths.bundle + "/prompt.md";
    out.bundle_policy = facts.paths.bundle + "/policy.json";
    out.bundle_tools = facts.paths.bundle + "/tools.json";
    out.tool_socket = facts.paths.tool_socket;
    out.turn_marker = facts.paths.turn_marker;
    out.turn_end = module.turn_end;
    out.turn_input = module.turn_input;
    out.harness_env["MOSAIC_MODULE"] = kInsideModule;
    if (route.program) {
        out.harness_env["MOSAIC_PROGRAM"] = route.program->real;
    }
    for (const auto& [var, text] : facts.instance.vars) {
        if (var.starts_with(module.name + ".")) {
            out.harness_env[config::variable_name(var)] = text;
        }
    }
    Renderer renderer(facts);
    for (const auto& [name, text] : module.environment) {
        out.harness_env[name] = renderer.render(text, Escape::none);
    }
    out.typed = granted_typed(facts);
    out.limits = facts.limits;
    out.warm = facts.warm;
    return out;
}

std::vector<HostPath> program_paths(const ChosenRoute& route) {
    std::vector<HostPath> out = programs_of(route);
    Values values = program_values(route);
    for (const Mount& mount : route.module->mounts) {
        bool depends = false;
        for (const std::string& name : mount.path.names()) {
            if (name.starts_with(kAncestor)) {
                values[name] = program_ancestor(route, name.substr(kAncestor.size()));
            }
            depends = depends || !values.contains(name);
        }
        std::string path = depends ? "" : mount.path.render(values, Escape::none);
        if (path.starts_with('/')) {
            out.push_back({std::move(path), mount.reason, true});
        }
    }
    return out;
}

Result<std::vector<HostPath>> host_paths(const RunFacts& facts) {
    const Module& module = *facts.route.module;
    std::vector<HostPath> out = programs_of(facts.route);
    Renderer renderer(facts);
    for (const Mount& mount : module.mounts) {
        std::string path = renderer.render(mount.path, Escape::none);
        if (path.starts_with('/')) {
            out.push_back({std::move(path), mount.reason, mount.optional});
        } else if (!mount.optional) {
            return fail(Code::missing,
                        "harness module " + module.name + ": the mount for " + mount.reason +
                            " has no path here");
        }
    }
    return out;
}

std::vector<std::string> path_directories(const ChosenRoute& route) {
    std::vector<std::string> out;
    for (const std::string& program : needs(route)) {
        const std::string directory = std::filesystem::path(program).parent_path().string();
        if (std::find(out.begin(), out.end(), directory) == out.end()) {
            out.push_back(directory);
        }
    }
    return out;
}

std::string transcript_path(const RunFacts& facts) {
    return Renderer(facts).render(facts.route.module->transcript, Escape::none);
}

std::vector<std::string> thread_directories(const RunFacts& facts) {
    std::vector<std::string> out;
    if (!facts.paths.thread_store.empty()) {
        for (const std::string& name : facts.route.module->thread_directories) {
            out.push_back(kept_directory(facts, name));
        }
    }
    return out;
}

std::string manifest(const RunFacts& facts, const ManifestFacts& more) {
    Array binds;
    for (const ManifestBind& bind : more.binds) {
        binds.emplace_back(Object{{"kind", bind.kind},
                                  {"source", text_or_null(bind.source)},
                                  {"dest", bind.dest},
                                  {"reason", bind.reason}});
    }
    Array hardening;
    for (const ManifestLevel& level : more.hardening) {
        hardening.emplace_back(Object{
            {"name", level.name}, {"level", level.level}, {"reason", text_or_null(level.reason)}});
    }
    Value out;
    out.set("run", facts.run);
    out.set("route", route_value(facts.route.route));
    out.set("routeReason", facts.route.reason);
    out.set("harnessVersion", text_or_null(more.harness_version));
    out.set("bwrapVersion", text_or_null(more.bwrap_version));
    out.set("mosaicVersion", more.mosaic_version);
    out.set("binds", std::move(binds));
    out.set("hardening", std::move(hardening));
    out.set("limits", limits_value(facts.limits));
    out.set("transcript", text_or_null(transcript_path(facts)));
    return json::dump_pretty(out);
}

}  // namespace mosaic::harness
