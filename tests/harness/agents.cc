#include "harness/agents.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace mosaic::agents {
namespace {

using e2e::contains;
using e2e::object;
using e2e::strings;
using e2e::text;

constexpr const char* kWaitSeconds = "120";
constexpr int kAskMs = 150'000;

json::Value names(const std::vector<const char*>& list) {
    json::Array out;
    for (const char* name : list) {
        out.emplace_back(name);
    }
    return json::Value(std::move(out));
}

void make_agent(e2e::World& world,
                const Kind& kind,
                const AgentOptions& options,
                const char* name) {
    world.set_var(name, "harness", kind.module);
    world.set_var(name, "provider", "anthropic");
    world.set_var(name, "model", kind.model);
    world.set_var(name, "thinking", kind.thinking);
    world.set_var(name, "limits.tools", names(options.tools));
    world.set_var(name, "limits.typed", names(options.typed));
    world.set_var(name, std::string(kind.module) + ".retries", options.retries);
}

}  // namespace

std::string programs() {
    const char* given = std::getenv("MOSAIC_HARNESSES");
    return std::filesystem::canonical(given != nullptr && *given != '\0'
                                          ? std::string(given)
                                          : std::string(MOSAIC_BUILD_DIR) + "/harnesses");
}

std::string tool_step(std::string_view tool, json::Value input) {
    return json::dump(object({{"tool", std::string(tool)}, {"input", std::move(input)}}));
}

std::string shell_step(std::string_view command) {
    return tool_step("bash", object({{"command", std::string(command)}}));
}

std::string script(const std::vector<std::string>& steps) {
    std::string out = "[";
    for (const std::string& step : steps) {
        out += step + ",";
    }
    return out + R"({"text":"{results}"}])";
}

Model::Model(const std::string& directory) : log_(directory + "/model.log") {
    std::array<int, 2> until{};
    std::array<int, 2> out{};
    REQUIRE(::pipe2(until.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out.data(), O_CLOEXEC) == 0);
    until_.reset(until[1]);
    const UniqueFd read_end(until[0]);
    const UniqueFd write_end(out[1]);
    child_ = e2e::Child::start({programs() + "/node",
                                std::string(MOSAIC_SOURCE_DIR) + "/tests/harness/mock-model.mjs",
                                "--key",
                                kKey,
                                "--log",
                                log_,
                                "--until",
                                std::to_string(until[0])},
                               {{"PATH", "/usr/bin:/bin"}},
                               {.out = write_end.get(), .err = -1, .extra = {until[0]}});
    e2e::LineStream lines((UniqueFd(out[0])));
    const auto line = lines.line();
    REQUIRE_MESSAGE(line.has_value(), "the model's stand-in doesn't start");
    url_ = *line;
}

std::vector<json::Value> Model::requests() const {
    std::vector<json::Value> out;
    const std::string all = e2e::read_text(log_);
    size_t start = 0;
    for (size_t end = all.find('\n'); end != std::string::npos; end = all.find('\n', start)) {
        const auto value =
            json::parse(std::string_view(all).substr(start, end - start), {.depth_max = 16});
        REQUIRE(value.has_value());
        out.push_back(*value);
        start = end + 1;
    }
    return out;
}

Agents::Agents(const Kind& the_kind, AgentOptions the_options)
    : kind(the_kind), options(std::move(the_options)), model(world.root) {
    for (const char* name : {"coder", "reviewer"}) {
        make_agent(world, kind, options, name);
    }
    world.system.find("plugins")->set("harness", strings({"script", kind.module}));
    world.launch_block().find("models")->array()->push_back(
        object({{"provider", "anthropic"}, {"model", kind.model}, {"max", 3}}));
    if (options.agent_pm) {
        make_agent(world, kind, options, "pm");
    }
    if (options.start) {
        start();
    }
}

void Agents::start() {
    const std::string base = options.base_url.empty() ? model.url() : options.base_url;
    e2e::StartOptions how;
    how.more_env = {{"MOSAIC_CLAUDE_BIN", programs() + "/claude"},
                    {"MOSAIC_PI_BIN", programs() + "/pi"},
                    {"MOSAIC_NODE_BIN", programs() + "/node"},
                    {"ANTHROPIC_BASE_URL", base},
                    {options.credential, options.key}};
    for (const auto& [name, value] : more_env) {
        how.more_env[name] = value;
    }
    world.start(how);
    world.launch("pm");
}

std::string Agents::path_argument() const {
    return std::string_view(kind.module) == kClaude.module ? "file_path" : "path";
}

std::string Agents::read_step(const std::string& path) const {
    return tool_step("read", object({{path_argument(), path}}));
}

std::string Agents::launch(std::string_view instance, std::string_view thread) {
    json::Value args = object({{"instance", std::string(instance)}});
    if (!thread.empty()) {
        args.set("thread", std::string(thread));
    }
    const std::string said =
        world.ask("pm", "/run/mosaic/mosaic-runner tool launch '" + json::dump(args) + "' 2>&1");
    const auto reply = json::parse(e2e::trim(said));
    REQUIRE_MESSAGE((reply.has_value() && reply->find("run") != nullptr),
                    "launch " << instance << ": " << said << "\n"
                              << world.host_log());
    return text(*reply, "run");
}

std::string Agents::ask(std::string_view instance,
                        std::string_view steps,
                        std::string_view thread) {
    std::vector<std::string> words = {"send",
                                      std::string(instance),
                                      "do it\nmock: " + std::string(steps),
                                      "--wait",
                                      kWaitSeconds,
                                      "--json"};
    if (!thread.empty()) {
        words.insert(words.end(), {"--thread", std::string(thread)});
    }
    const e2e::Finished finished = world.mosaic(words, kAskMs);
    REQUIRE_MESSAGE(finished.exit.code == 0,
                    "send " << instance << ": " << finished.out << finished.err << "\n"
                            << world.host_log());
    const json::Value reply = finished.json();
    REQUIRE(reply.find("reply") != nullptr);
    return text(*reply.find("reply"), "body");
}

}  // namespace mosaic::agents
