// mosaic sandbox show: what a run of an instance would see, and why.

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/would_be_run.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

json::Value bind_value(const sandbox::Bind& bind) {
    json::Value out;
    out.set("kind", to_string(bind.kind));
    if (!bind.source.empty()) {
        out.set("source", bind.source);
    }
    out.set("dest", bind.dest);
    out.set("reason", bind.reason);
    return out;
}

json::Value run_value(const std::string& instance, const WouldBeRun& run) {
    json::Array binds;
    for (const sandbox::Bind& bind : run.binds) {
        binds.push_back(bind_value(bind));
    }
    json::Array refused;
    for (const Refused& one : run.refused) {
        json::Value value;
        value.set("error", to_string(one.code));
        value.set("message", one.reason);
        refused.push_back(std::move(value));
    }
    json::Value out;
    out.set("instance", instance);
    out.set("route", run.route.empty() ? json::Value() : json::Value(run.route));
    out.set("network", run.network);
    out.set("namespaces", strings_value(run.namespaces));
    out.set("binds", json::Value(std::move(binds)));
    out.set("environment", strings_value(run.variables));
    out.set("warnings", strings_value(run.warnings));
    out.set("refused", json::Value(std::move(refused)));
    return out;
}

std::string joined(const std::vector<std::string>& list) {
    std::string out;
    for (const std::string& text : list) {
        out += (out.empty() ? "" : " ") + text;
    }
    return out;
}

std::string run_text(const std::string& instance, const WouldBeRun& run) {
    std::string out = "instance     " + one_line(instance) + "\n";
    out += "route        " + one_line(run.route.empty() ? "refused" : run.route) + "\n";
    out += "network      " + run.network + "\n";
    out += "namespaces   " + joined(run.namespaces) + "\n";
    out += "environment  " + one_line(joined(run.variables)) + "\n\n";
    Table table({"KIND", "INSIDE", "FROM", "REASON"});
    for (const sandbox::Bind& bind : run.binds) {
        const std::string from =
            bind.source.empty() || bind.source == bind.dest ? "-" : escape_path(bind.source);
        table.add({std::string(to_string(bind.kind)), escape_path(bind.dest), from, bind.reason});
    }
    out += table.text();
    for (const std::string& warning : run.warnings) {
        out += "warning: " + one_line(warning) + "\n";
    }
    for (const Refused& one : run.refused) {
        out += "a launch now is refused: " + std::string(to_string(one.code)) + " (" +
               one_line(one.reason) + ")\n";
    }
    return out;
}

}  // namespace

int run_sandbox_show(const Context& context) {
    const auto machine = read_machine(context);
    if (!machine) {
        return report(context, machine.error());
    }
    const std::string& name = context.options.target;
    const config::Instance* instance = machine->business.find(name);
    if (instance == nullptr) {
        return report(
            context,
            Failure{exit_code::kInvalidInput, machine->business.file + ": /roles has no " + name});
    }
    const auto run = would_be_run(machine->setting(context.env), *instance);
    if (!run) {
        report(context, run.error());
        return exit_code::kRefused;
    }
    const int printed = finish(context.options.json ? print_json(run_value(name, *run))
                                                    : print(run_text(name, *run)));
    return run->refused.empty() || printed != exit_code::kFine ? printed : exit_code::kRefused;
}

}  // namespace mosaic::cli
