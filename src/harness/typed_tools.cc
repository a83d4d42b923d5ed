#include "harness/typed_tools.h"

#include <array>
#include <string_view>

#include "base/assert.h"
#include "wire/typed_tools.h"

namespace mosaic::harness {
namespace {

using json::Array;
using json::Object;
using json::Value;

struct Argument {
    std::string_view name;
    std::string_view type;  // of JSON schema
    bool required = false;
    std::string_view description;
};

struct Tool {
    std::string_view name;
    std::string_view description;
    std::array<Argument, 6> arguments;  // unused ones have no name
};

constexpr std::array<Tool, wire::kTypedTools.size()> kTools = {{
    {"launch",
     "Starts the session of another role. Answers once that session runs, or with the code of why "
     "it "
     "may not.",
     {{{"instance", "string", true, "The role to launch."},
       {"thread", "string", false, "A thread of the role, which keeps its own memory."}}}},
    {"message_send",
     "Sends a message to another role or to the human. Its receiver need not be running.",
     {{{"to", "string", true, "A role, or the human's name."},
       {"thread", "string", false, "The receiver's thread."},
       {"body", "string", true, "The text."},
       {"class", "string", false, "REQUEST (the default), REPLY or NOTE."},
       {"in_reply_to", "string", false, "The id of the message that this answers."},
       {"wait", "integer", false, "Seconds to wait for the reply, which is then in the result."}}}},
    {"task_create",
     "Adds a task to the business's list.",
     {{{"title", "string", true, "What is to be done, in one line."},
       {"body", "string", false, "What whoever does it needs to know."},
       {"role", "string", false, "Who is to do it; you when left out."}}}},
    {"task_list",
     "Lists tasks: id, role, state, title, body, the last note, who made it.",
     {{{"role", "string", false, "Only the tasks of this role."},
       {"state",
        "string",
        false,
        "Only tasks in this state: open, doing, done or dropped. Left out: open and doing."},
       {"after", "string", false, "The next that a list gave when there was more."}}}},
    {"task_update",
     "Changes a task's state, adds a note, or both.",
     {{{"id", "string", true, "The task."},
       {"state", "string", false, "open, doing, done or dropped."},
       {"note", "string", false, "What happened."}}}},
    {"decision_request",
     "Asks the human to decide. Answers with the decision's id at once; allowed or denied comes as "
     "a message of class NOTE.",
     {{{"question", "string", true, "What is to be decided."},
       {"context", "string", false, "What the human needs to know for it."},
       {"options", "array", false, "What the human may choose from, a line each."}}}},
}};

const Tool& tool_named(std::string_view name) {
    for (const Tool& tool : kTools) {
        if (tool.name == name) {
            return tool;
        }
    }
    MOSAIC_ASSERT(false && "configuration grants known typed tools only");
    return kTools.front();
}

Value parameters_of(const Tool& tool) {
    Object properties;
    Array required;
    for (const Argument& argument : tool.arguments) {
        if (argument.name.empty()) {
            break;
        }
        Object property = {{"type", argument.type}, {"description", argument.description}};
        if (argument.type == "array") {
            property.emplace_back("items", Object{{"type", "string"}});
        }
        properties.emplace_back(argument.name, std::move(property));
        if (argument.required) {
            required.emplace_back(argument.name);
        }
    }
    return Object{{"type", "object"},
                  {"properties", std::move(properties)},
                  {"required", std::move(required)},
                  {"additionalProperties", false}};
}

}  // namespace

Value describe_typed_tools(const std::vector<std::string>& names) {
    Array out;
    for (const std::string& name : names) {
        const Tool& tool = tool_named(name);
        out.emplace_back(Object{{"name", tool.name},
                                {"description", tool.description},
                                {"parameters", parameters_of(tool)}});
    }
    return Value(std::move(out));
}

}  // namespace mosaic::harness
