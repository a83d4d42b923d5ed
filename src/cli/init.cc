// mosaic init: a small business to start from.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/ids.h"
#include "cli/command.h"
#include "cli/output.h"
#include "process/files.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPmContract =
    "# PM\n"
    "You plan the work of this business. You launch the coder when there is something to do, send "
    "it\n"
    "requests, and tell the human what came of them.\n";
constexpr std::string_view kCoderContract =
    "# Coder\n"
    "You work in your workspace. You answer each request with what you did, and you say so when "
    "you\n"
    "can't do what was asked.\n";
constexpr const char* kEcho = "echo \"$MOSAIC_WORKSPACE got:\"; cat";

struct Plan {
    std::string config_dir;
    std::string system_file;  // absolute
    std::string business;
    std::string human;
    std::string workspaces;  // <home>/mosaic/<business>
    config::Route route;
    bool script = true;  // the roles run a command of their own, no agent
};

json::Value texts(const std::vector<std::string>& list) {
    json::Array out;
    for (const std::string& text : list) {
        out.emplace_back(text);
    }
    return json::Value(std::move(out));
}

json::Value role_value(const Plan& plan, const std::string& name, bool launches) {
    json::Value vars;
    vars.set("harness", plan.route.harness);
    vars.set("provider", plan.route.provider);
    vars.set("model", plan.route.model);
    vars.set("thinking", plan.route.thinking);
    if (plan.script) {
        vars.set("script.command", kEcho);
    }
    vars.set("limits.tools", plan.script ? texts({}) : texts({"bash", "read", "write", "edit"}));
    vars.set("limits.typed",
             launches ? texts({"launch", "message_send"}) : texts({"message_send"}));
    // An agent has to reach its model.
    vars.set("network", plan.script ? "none" : "host");
    json::Value authority;
    authority.set("withinRole",
                  launches ? texts({"message.send", "role.launch"}) : texts({"message.send"}));
    authority.set("crossRole", launches ? texts({"message.send"}) : texts({}));
    authority.set("gated", texts({}));
    json::Value role;
    role.set("definition", name);
    role.set("workspace", plan.workspaces + "/" + name);
    role.set("vars", vars);
    role.set("authority", authority);
    return role;
}

json::Value business_value(const Plan& plan) {
    json::Value arbiters;
    arbiters.set("technical", "pm");
    arbiters.set("delivery", "pm");
    json::Value roles;
    roles.set("pm", role_value(plan, "pm", true));
    roles.set("coder", role_value(plan, "coder", false));
    json::Value model;
    model.set("provider", plan.route.provider);
    model.set("model", plan.route.model);
    model.set("max", 4);
    json::Value launch;
    launch.set("by", "pm");
    launch.set("instances", texts({"coder"}));
    launch.set("models", json::Value(json::Array{model}));
    json::Value out;
    out.set("id", plan.business);
    out.set("human", plan.human);
    out.set("arbiters", arbiters);
    out.set("roles", roles);
    out.set("launch", launch);
    return out;
}

json::Value system_value(const Plan& plan) {
    json::Value plugins;
    plugins.set("harness", plan.script ? texts({"script"}) : texts({"script", plan.route.harness}));
    json::Value out;
    out.set("plugins", plugins);
    return out;
}

std::string value_or(const config::Environment& env,
                     const std::string& name,
                     const std::string& other) {
    const auto hit = env.find(name);
    return hit == env.end() || hit->second.empty() ? other : hit->second;
}

std::string business_file(const Plan& plan) {
    return plan.config_dir + "/businesses/" + plan.business + ".json";
}

// The path of a file to be is one, too: no directory is made for a name that can't be a file's.
Result<void> check_names_file(const std::string& path) {
    std::error_code error;
    const std::string name = fs::path(path).filename().string();
    if (name.empty() || name == "." || name == ".." || fs::is_directory(path, error)) {
        return fail(
            Code::invalid,
            "--config: expected the path of the system file, found " + path + ", a directory");
    }
    return {};
}

// Where the path leads, what exists of it by its real path.
Result<std::string> place_of(const std::string& path) {
    std::error_code error;
    const fs::path place = fs::weakly_canonical(path, error);
    if (error) {
        return fail_sys(error.value(), path);
    }
    return place == "/" ? std::string() : place.string();
}

Result<void> check_apart(const Plan& plan) {
    MOSAIC_TRY_ASSIGN(const std::string workspaces, place_of(plan.workspaces));
    MOSAIC_TRY_ASSIGN(const std::string config_dir, place_of(plan.config_dir));
    if ((workspaces + "/").starts_with(config_dir + "/")) {
        return fail(Code::invalid,
                    "--config: the file needs a directory of its own; workspaces must not lie in " +
                        plan.config_dir);
    }
    return {};
}

Result<Plan> make_plan(const Context& context) {
    Plan plan;
    MOSAIC_TRY_ASSIGN(const std::string named,
                      config::system_file_path(context.options.config, context.env));
    MOSAIC_TRY_ASSIGN(plan.system_file, config::absolute_path(named));
    MOSAIC_TRY(check_names_file(plan.system_file));
    plan.config_dir = fs::path(plan.system_file).parent_path().string();
    plan.business = context.options.business.empty() ? "acme" : context.options.business;
    if (!is_id(plan.business)) {
        return fail(Code::invalid, "--business: \"" + plan.business + "\" is no id");
    }
    const std::string home = value_or(context.env, "HOME", "");
    if (home.empty() || home[0] != '/') {
        return fail(Code::missing, "HOME is not set to an absolute path");
    }
    const std::string user = value_or(context.env, "USER", "human");
    plan.human = is_id(user) && user != "pm" && user != "coder" ? user : "human";
    plan.workspaces = home + "/mosaic/" + plan.business;
    const Options& o = context.options;
    plan.script = o.harness.empty();
    plan.route = plan.script ? config::Route{"script", "local", "shell", "off"}
                             : config::Route{o.harness, o.provider, o.model, o.thinking};
    MOSAIC_TRY(check_apart(plan));
    // What is written is what loads: a name or a path that doesn't is refused before.
    MOSAIC_TRY(
        config::parse_system(json::dump_pretty(system_value(plan)), plan.system_file, context.env));
    MOSAIC_TRY(
        config::parse_business(json::dump_pretty(business_value(plan)), business_file(plan)));
    return plan;
}

// What was done, for people and programs.
struct Report {
    std::vector<std::string> wrote;
    std::vector<std::string> kept;
};

Result<void> write_new(Report& report, const std::string& path, std::string_view content) {
    struct stat there {};

    if (::lstat(path.c_str(), &there) == 0) {
        report.kept.push_back(path);
        return {};
    }
    const size_t slash = path.rfind('/');
    const std::string directory = path.substr(0, slash);
    MOSAIC_TRY(process::make_directories(directory));
    MOSAIC_TRY_ASSIGN(const UniqueFd parent, process::open_directory(directory));
    if (auto made = process::create_file(parent.get(), path.substr(slash + 1), content, 0600);
        !made) {
        return fail(made.error().code, path + ": " + made.error().text);
    }
    report.wrote.push_back(path);
    return {};
}

Result<void> make_workspace(Report& report, const std::string& path) {
    struct stat there {};

    if (::lstat(path.c_str(), &there) == 0) {
        report.kept.push_back(path);
        return {};
    }
    MOSAIC_TRY(process::make_directories(path));
    report.wrote.push_back(path);
    return {};
}

Result<Report> carry_out(const Plan& plan) {
    Report report;
    MOSAIC_TRY(write_new(report, plan.system_file, json::dump_pretty(system_value(plan))));
    MOSAIC_TRY(write_new(report, business_file(plan), json::dump_pretty(business_value(plan))));
    MOSAIC_TRY(write_new(report, plan.config_dir + "/roles/pm.md", kPmContract));
    MOSAIC_TRY(write_new(report, plan.config_dir + "/roles/coder.md", kCoderContract));
    MOSAIC_TRY(make_workspace(report, plan.workspaces + "/pm"));
    MOSAIC_TRY(make_workspace(report, plan.workspaces + "/coder"));
    return report;
}

// What was there before and keeps the new business from running; empty when nothing does.
std::string what_hinders(const Context& context, const Plan& plan, const Report& report) {
    const auto kept = [&](const std::string& path) {
        return std::find(report.kept.begin(), report.kept.end(), path) != report.kept.end();
    };
    const std::string business = business_file(plan);
    if (kept(business) && !plan.script) {
        return business +
               " was there before; its routes stay as they are: change them with `mosaic routes "
               "set`";
    }
    if (!kept(plan.system_file) || kept(business)) {
        return {};
    }
    const auto system = config::load_system(context.options.config, context.env);
    if (!system) {
        return system.error().text;
    }
    const std::vector<std::string>& on = system->plugins_harness;
    if (std::find(on.begin(), on.end(), plan.route.harness) == on.end()) {
        return plan.system_file + " was there before and doesn't switch " + plan.route.harness +
               " on: add it to plugins.harness there";
    }
    return {};
}

Result<void> print_report(const Context& context, const Plan& plan, const Report& report) {
    if (context.options.json) {
        json::Value out;
        out.set("business", plan.business);
        out.set("wrote", texts(report.wrote));
        out.set("kept", texts(report.kept));
        return print_json(out);
    }
    std::string text;
    for (const std::string& path : report.wrote) {
        text += "wrote  " + one_line(path) + "\n";
    }
    for (const std::string& path : report.kept) {
        text += "kept   " + one_line(path) + "\n";
    }
    // Commands find the only business by themselves.
    const bool several = configured_ids(plan.config_dir).size() > 1;
    const std::string which = several ? " --business " + plan.business : "";
    text += "\nNext: mosaic doctor" + which + "; mosaic-host --business " + plan.business +
            " --pm; mosaic send" + which + " pm \"hello\" --wait 20\n";
    return print(text);
}

}  // namespace

int run_init(const Context& context) {
    const auto plan = make_plan(context);
    if (!plan) {
        const bool input = plan.error().code == Code::invalid;
        report(context, plan.error());
        return input ? exit_code::kInvalidInput : exit_code::kRefused;
    }
    const auto done = carry_out(*plan);
    if (!done) {
        return report(context, done.error());
    }
    const int code = finish(print_report(context, *plan, *done));
    if (const std::string problem = what_hinders(context, *plan, *done); !problem.empty()) {
        complain(problem);
        return exit_code::kFailed;
    }
    return code;
}

}  // namespace mosaic::cli
