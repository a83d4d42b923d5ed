#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "harness/template.h"
#include "wire/json.h"
#include "wire/session_file.h"

// A harness module, interface 1: a directory with harness.json and the files it names. It tells the
// core everything about one agent program; the core knows none by name. docs/harness-modules.md
// describes the file for who writes one.

namespace mosaic::harness {

constexpr int64_t kInterface = 1;

// Where a session finds the staged runner tree.
constexpr const char* kInsideRunner = "/run/mosaic/mosaic-runner";
constexpr const char* kInsideModule = "/run/mosaic/module";

// Variables that log a session in. A set counts when all its variables are set; the first that
// counts is the one that a session gets.
using CredentialSet = std::vector<std::string>;

struct Provider {
    std::vector<CredentialSet> credentials;  // empty: this provider needs none
    std::vector<std::string> variables;      // passed as well when they are set

    bool operator==(const Provider&) const = default;
};

// A program of the host that a turn runs.
struct Program {
    std::string name;                       // helpers: what placeholders call it; else the module's
    std::string variable;                   // pins it to an absolute path; empty: nothing does
    std::vector<std::string> names;         // looked up in PATH, in this order
    std::vector<std::string> version_args;  // empty: it is never asked for its version
    // No script and, when it was looked up, no link to a file of another name: version managers put
    // such in PATH, and these need more of the host than one file.
    bool native = false;
    std::string interpreter{};  // the helper that runs it when it is asked; empty: it runs itself

    bool operator==(const Program&) const = default;
};

// A file or directory of the host that a session sees read-only.
struct Mount {
    Template path;
    std::string reason;
    bool optional = false;  // left out when its path isn't there or has an unset part

    bool operator==(const Mount&) const = default;
};

// One name of limits.tools, as the harness knows it.
struct BuiltInTool {
    std::vector<std::string> names;  // the harness's own tools that it grants
    std::vector<std::string> paths;  // arguments of these that are paths
    bool writes = false;             // changes what lies there
    bool shell = false;  // runs any command, so that paths and control paths bind nothing

    bool operator==(const BuiltInTool&) const = default;
};

// How the harness asks whether a tool may run, and what it takes for an answer.
struct Gate {
    std::string tool;   // JSON pointer to the tool's name in the harness's question
    std::string input;  // ... and to its arguments
    json::Value allow;  // printed for yes
    json::Value deny;   // printed for no; "${reason}" in its strings becomes the reason

    bool operator==(const Gate&) const = default;
};

// A file of the bundle that the module brings, made anew for each run.
struct BundleFile {
    std::string name;
    Template content;

    bool operator==(const BundleFile&) const = default;
};

// A file of the staged tree. Its path is relative to the tree's root.
struct StagedFile {
    std::string path;
    std::string content;
    mode_t mode = 0400;

    bool operator==(const StagedFile&) const = default;
};

struct Module {
    std::string directory;  // real path
    std::string name;
    std::string adapter;                          // run by sh
    std::map<std::string, std::string> thinking;  // level -> text in MOSAIC_THINKING
    std::map<std::string, Provider> providers;
    std::optional<Provider> any_provider;  // for every other provider; nothing: there is no other
    std::optional<Program> program;
    std::vector<Program> helpers;
    std::vector<Mount> mounts;
    std::map<std::string, BuiltInTool> tools;  // limits.tools name -> the harness's tools
    std::vector<std::string> typed;            // typed tools that the harness can offer
    std::string typed_prefix;                  // before a typed tool's name in the harness
    std::optional<Gate> gate;
    int64_t gate_timeout_ms = 10'000;
    std::vector<BundleFile> bundle_files;
    std::map<std::string, Template> environment;  // of the adapter
    std::vector<std::string> control_paths;       // relative to a workspace
    bool account = false;                         // its credential is an account to count
    std::vector<std::string> thread_directories;  // kept for a thread beside its session/
    wire::TurnEnd turn_end = wire::TurnEnd::exit;
    wire::TurnInput turn_input = wire::TurnInput::none;
    Template transcript;
    std::vector<std::string> required_vars;  // "script.command": refused without them
    std::vector<StagedFile> files;           // the adapter and `files`, read when it was loaded

    bool operator==(const Module&) const = default;
};

// Pure: harness.json alone. `files` and the bundle files' contents stay empty; `bundle_sources`
// gets the template file of each bundle file, `file_names` the files to stage.
struct ParsedModule {
    Module module;
    std::vector<std::string> bundle_sources;
    std::vector<std::string> file_names;
};

[[nodiscard]] Result<ParsedModule> parse_module(std::string_view text, const std::string& path);

// Reads the whole module. Refuses (Code::unsafe) what somebody else could write, and a directory
// that isn't named like the module. Files are regular files below the directory, without links.
[[nodiscard]] Result<Module> load_module(const std::string& directory);

// The modules that are switched on. One that can't be loaded stands in `problems` with the reason;
// launches with it are refused, others go on.
struct ModuleSet {
    std::map<std::string, Module> modules;
    std::map<std::string, std::string> problems;

    bool operator==(const ModuleSet&) const = default;
};

// Each name of plugins.harness from the first of pluginDirs, then `shipped` (empty: none), that has
// such a directory.
[[nodiscard]] ModuleSet load_modules(const config::SystemConfig& system,
                                     const std::string& shipped);

// The names of all modules that there are, switched on or not: directories with a harness.json. In
// order, each once.
[[nodiscard]] std::vector<std::string> available_modules(const config::SystemConfig& system,
                                                         const std::string& shipped);

// The shipped modules' directory of the program at `executable` (an absolute path, for example the
// target of /proc/self/exe): share/mosaic/harness beside the directory that holds it, or one level
// further up, as in a build tree. Empty when there is none.
[[nodiscard]] std::string shipped_directory(const std::string& executable);

// The placeholders that every run provides, without those that depend on the module (thread:NAME,
// helper:NAME, programAncestor:NAME).
[[nodiscard]] const std::vector<std::string>& placeholder_names();

// What is wrong with the first placeholder of `text` that no run of the module provides; empty:
// none.
[[nodiscard]] std::string unknown_placeholder(const Module& module, const Template& text);

// Which files of the module go into the staged tree: "module/<path>".
[[nodiscard]] std::vector<StagedFile> stage_plan(const Module& module);

// SHA-256 in hex over paths, modes and contents: the tree's name. The order of `files` has no part
// in it.
[[nodiscard]] std::string stage_digest(std::vector<StagedFile> files);

// The version in what a program printed: the first word of its first lines that begins with a digit
// or with v and a digit and has a dot, without that v. Empty when there is none.
[[nodiscard]] std::string version_from(std::string_view output);

}  // namespace mosaic::harness
