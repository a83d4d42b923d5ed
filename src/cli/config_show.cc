// mosaic config: the configuration as a host would take it now, checked, defaults filled in.

#include "cli/command.h"
#include "cli/output.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

using config::Business;
using config::Instance;
using config::SystemConfig;

json::Value text_or_null(const std::string& text) {
    return text.empty() ? json::Value() : json::Value(text);
}

json::Value limits_value(const config::Limits& limits) {
    json::Value out;
    out.set("runnerPidMs", limits.runner_pid_ms);
    out.set("claimMs", limits.claim_ms);
    out.set("stopTimeoutMs", limits.stop_timeout_ms);
    out.set("setupInFlight", limits.setup_in_flight);
    out.set("setupWaitMs", limits.setup_wait_ms);
    out.set("shmBytes", limits.shm_bytes);
    out.set("runsKept", limits.runs_kept);
    out.set("runsKeptDays", limits.runs_kept_days);
    out.set("runDiskBytes", limits.run_disk_bytes);
    out.set("diskCheckSeconds", limits.disk_check_seconds);
    out.set("turnSeconds", limits.session.turn_seconds);
    out.set("turnGraceMs", limits.session.turn_grace_ms);
    out.set("replyBytes", limits.session.reply_bytes);
    out.set("brokerRetries", limits.session.broker_retries);
    out.set("processes", limits.session.processes);
    out.set("openFiles", limits.session.open_files);
    return out;
}

json::Value system_value(const SystemConfig& system) {
    json::Value sandbox;
    sandbox.set("bwrap", system.sandbox.bwrap);
    sandbox.set("passEnv", strings_value(system.sandbox.pass_env));
    sandbox.set("gitCommonDir", system.sandbox.git_common_dir);
    sandbox.set("nested", system.sandbox.nested);
    json::Value out;
    out.set("file", text_or_null(system.file));
    out.set("dataRoot", system.data_root);
    out.set("rolesDir", system.roles_dir);
    out.set("plugins.harness", strings_value(system.plugins_harness));
    out.set("pluginDirs", strings_value(system.plugin_dirs));
    out.set("user", text_or_null(system.user));
    out.set("metrics.port", system.metrics_port);
    out.set("notify", strings_value(system.notify));
    out.set("sandbox", std::move(sandbox));
    out.set("limits", limits_value(system.limits));
    return out;
}

json::Value route_value(const std::optional<config::Route>& route) {
    if (!route) {
        return {};
    }
    json::Value out;
    out.set("harness", route->harness);
    out.set("provider", route->provider);
    out.set("model", route->model);
    out.set("thinking", route->thinking);
    return out;
}

json::Value instance_value(const SystemConfig& system, const Instance& instance) {
    json::Value authority;
    authority.set("withinRole", strings_value(instance.authority.within_role));
    authority.set("crossRole", strings_value(instance.authority.cross_role));
    authority.set("gated", strings_value(instance.authority.gated));
    json::Value vars(json::Object{});
    for (const auto& [name, value] : instance.vars) {
        vars.set(name, value);
    }
    json::Value out;
    out.set("contract", config::contract_path(system, instance));
    out.set("workspace", instance.workspace);
    out.set("route", route_value(instance.route));
    out.set("fallback", route_value(instance.fallback));
    out.set("tools", strings_value(instance.tools));
    out.set("typed", strings_value(instance.typed));
    out.set("network", to_string(instance.network));
    out.set("vars", std::move(vars));
    out.set("warm", instance.warm);
    out.set("authority", std::move(authority));
    return out;
}

json::Value business_value(const SystemConfig& system, const Business& business) {
    json::Value roles;
    for (const auto& [name, instance] : business.roles) {
        roles.set(name, instance_value(system, instance));
    }
    json::Value out;
    out.set("file", business.file);
    out.set("id", business.id);
    out.set("human", business.human);
    out.set("roles", std::move(roles));
    if (!business.launch) {
        out.set("launch", json::Value());
        return out;
    }
    json::Array models;
    for (const config::ModelLimit& model : business.launch->models) {
        models.emplace_back(
            json::Object{{"provider", model.provider}, {"model", model.model}, {"max", model.max}});
    }
    json::Value launch;
    launch.set("by", business.launch->by);
    launch.set("instances", strings_value(business.launch->instances));
    launch.set("models", std::move(models));
    launch.set("accountMax", business.launch->account_max);
    out.set("launch", std::move(launch));
    return out;
}

// One line a value, its place as in the files.
void add_lines(Table& table, const std::string& place, const json::Value& value) {
    const json::Object* object = value.object();
    if (object == nullptr) {
        const std::string* text = value.string();
        table.add({place, text != nullptr ? *text : json::dump(value)});
        return;
    }
    for (const auto& [key, member] : *object) {
        add_lines(table, place.empty() ? key : place + "." + key, member);
    }
}

std::string config_text(const json::Value& all) {
    Table table({"WHAT", "VALUE"});
    add_lines(table, "", all);
    return table.text();
}

}  // namespace

int run_config(const Context& context) {
    const auto system = config::load_system(context.options.config, context.env);
    if (!system) {
        return report(context, Failure{exit_code::kRefused, system.error().text});
    }
    json::Value all;
    all.set("system", system_value(*system));
    std::vector<std::string> names = configured_ids(system->directory);
    if (!context.options.business.empty()) {
        names = {context.options.business};
    }
    json::Value businesses;
    for (const std::string& name : names) {
        const auto business = config::load_business(name, *system);
        if (!business) {
            return report(context, Failure{exit_code::kRefused, business.error().text});
        }
        businesses.set(business->id, business_value(*system, *business));
    }
    all.set("businesses", std::move(businesses));
    return finish(context.options.json ? print_json(all) : print(config_text(all)));
}

}  // namespace mosaic::cli
