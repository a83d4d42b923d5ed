// tasks.

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

}  // namespace

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
