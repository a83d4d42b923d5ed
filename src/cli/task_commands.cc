// tasks and decisions.

#include "cli/command.h"
#include "cli/output.h"
#include "wire/codes.h"
#include "wire/task_messages.h"

namespace mosaic::cli {
namespace {

json::Value arguments_of(const Context& context, const std::string& after) {
    json::Value out(json::Object{});
    if (!context.options.role.empty()) {
        out.set("to", context.options.role);
    }
    if (!context.options.state.empty()) {
        out.set("state", context.options.state);
    }
    if (!after.empty()) {
        out.set("after", after);
    }
    return out;
}

Asked<std::vector<wire::Task>> all_tasks(const Context& context, AdminClient& client) {
    std::vector<wire::Task> out;
    std::string after;
    do {
        const auto answer = ask(context, client, {"task.list", arguments_of(context, after)});
        if (!answer) {
            return tl::unexpected<int>(answer.error());
        }
        auto page = wire::TaskListResult::from(*answer);
        if (!page) {
            return tl::unexpected<int>(report(context, page.error()));
        }
        for (wire::Task& task : page->tasks) {
            out.push_back(std::move(task));
        }
        // A page that says "more" and brings nothing would be asked for for ever.
        after = page->tasks.empty() ? "" : page->next;
    } while (!after.empty());
    return out;
}

Result<void> print_tasks(const std::vector<wire::Task>& tasks) {
    if (tasks.empty()) {
        return print("no tasks\n");
    }
    Table table({"ID", "ROLE", "STATE", "BY", "CREATED", "TITLE", "NOTE"});
    for (const wire::Task& task : tasks) {
        table.add({task.id,
                   task.role,
                   std::string(to_string(task.state)),
                   task.by,
                   task.at,
                   task.title,
                   task.note.empty() ? "-" : task.note});
    }
    return print(table.text());
}

Asked<wire::DecisionsResult> ask_decisions(const Context& context,
                                           AdminClient& client,
                                           const wire::DecisionsArgs& args) {
    const auto answer = ask(context, client, {"decisions", args.to_value(), kReplyWithin, true});
    if (!answer) {
        return tl::unexpected<int>(answer.error());
    }
    auto result = wire::DecisionsResult::from(*answer);
    if (!result) {
        return tl::unexpected<int>(report(context, result.error()));
    }
    return std::move(*result);
}

Asked<std::vector<wire::ShownDecision>> all_decisions(const Context& context, AdminClient& client) {
    std::vector<wire::ShownDecision> out;
    wire::DecisionsArgs args;
    args.id = context.options.target;
    do {
        auto page = ask_decisions(context, client, args);
        if (!page) {
            return tl::unexpected<int>(page.error());
        }
        args.after = page->decisions.empty() ? "" : page->next;
        for (wire::ShownDecision& one : page->decisions) {
            out.push_back(std::move(one));
        }
    } while (!args.after.empty());
    return out;
}

std::string decision_seat(const wire::ShownDecision& one) {
    return describe(Seat{one.instance, one.thread});
}

// With every argument as it was given: nothing that is decided may stay out of sight.
std::string whole_decision(const wire::ShownDecision& one) {
    std::string out = one_line(one.id + " " + one.state + ": " + decision_seat(one) + " asks for " +
                               one.verb + ", " + one.at) +
                      "\n";
    if (one.args) {
        out += escape_invisible(json::dump_pretty(*one.args));
    }
    return out;
}

Result<void> print_decisions(const Context& context,
                             const std::vector<wire::ShownDecision>& decisions) {
    if (!context.options.target.empty()) {
        for (const wire::ShownDecision& one : decisions) {
            MOSAIC_TRY(print(whole_decision(one)));
        }
        return {};
    }
    if (decisions.empty()) {
        return print("nothing waits for your answer\n");
    }
    Table table({"ID", "STATE", "BY", "VERB", "ASKED"});
    for (const wire::ShownDecision& one : decisions) {
        table.add({one.id, one.state, decision_seat(one), one.verb, one.at});
    }
    return print(table.text() + "\nThe whole of one: mosaic decisions ID\n");
}

}  // namespace

int run_decisions(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const auto decisions = all_decisions(context, *client);
    if (!decisions) {
        return decisions.error();
    }
    if (!context.options.json) {
        return finish(print_decisions(context, *decisions));
    }
    json::Array list;
    for (const wire::ShownDecision& one : *decisions) {
        list.push_back(one.to_value());
    }
    return finish(print_json(json::Value(std::move(list))));
}

int run_tasks(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const auto tasks = all_tasks(context, *client);
    if (!tasks) {
        return tasks.error();
    }
    if (!context.options.json) {
        return finish(print_tasks(*tasks));
    }
    json::Array list;
    for (const wire::Task& task : *tasks) {
        list.push_back(task.to_value());
    }
    return finish(print_json(json::Value(std::move(list))));
}

}  // namespace mosaic::cli
