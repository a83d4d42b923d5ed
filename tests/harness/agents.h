#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "e2e/harness.h"

// Businesses whose roles are real agent programs, in front of a stand-in for the model
// (mock-model.mjs). The PM is a script that launches them with its launch tool.

namespace mosaic::agents {

// One harness module as the tests use it.
struct Kind {
    const char* module;
    const char* model;
    const char* thinking;
    const char* typed_prefix;
};

inline constexpr Kind kClaude = {"claude-code", "claude-sonnet-5-5", "high", "mcp__mosaic__"};
inline constexpr Kind kPi = {"pi", "claude-sonnet-4-5", "high", ""};

// The key that a world's sessions are logged in with, unless a test takes another.
inline constexpr const char* kKey = "stand-in-key-0123456789";

// The directory that tools/npm-harnesses filled.
[[nodiscard]] std::string programs();

// A step of a script that runs a shell command, and one that calls any tool.
[[nodiscard]] std::string shell_step(std::string_view command);
[[nodiscard]] std::string tool_step(std::string_view tool, json::Value input);

// A script of these steps that ends with the tools' results as the answer.
[[nodiscard]] std::string script(const std::vector<std::string>& steps);

// A model that answers by the script in the message.
class Model {
  public:
    explicit Model(const std::string& directory);

    [[nodiscard]] const std::string& url() const { return url_; }

    // All requests so far, see mock-model.mjs.
    [[nodiscard]] std::vector<json::Value> requests() const;

  private:
    std::string log_;
    std::string url_;
    UniqueFd until_;
    e2e::Child child_;
};

struct AgentOptions {
    std::string credential = "ANTHROPIC_API_KEY";
    std::string key = kKey;
    std::string base_url;  // empty: the model's
    std::vector<const char*> tools = {"bash", "read", "write", "edit"};
    std::vector<const char*> typed = {"launch", "message_send"};
    const char* retries = "1";
    bool start = true;
    bool agent_pm = false;  // the PM runs the agent too; the human launches it
};

// A world whose coder and reviewer run `kind`; tester stays a script. With `start` the host runs
// and the PM is launched.
class Agents {
  public:
    explicit Agents(const Kind& kind, AgentOptions options = {});

    // Starts the host (again) with the credentials and programs, and launches the PM.
    void start();
    // Launches an instance with the PM's launch tool; the run.
    std::string launch(std::string_view instance, std::string_view thread = "");
    // Sends a message whose script is `steps`, a JSON array, and waits for the reply.
    std::string ask(std::string_view instance,
                    std::string_view steps,
                    std::string_view thread = "");

    // The names of a file tool's path argument, and a call of the read tool, as JSON.
    [[nodiscard]] std::string path_argument() const;
    [[nodiscard]] std::string read_step(const std::string& path) const;

    Kind kind;
    AgentOptions options;
    e2e::Environment more_env;
    e2e::World world;
    Model model;
};

}  // namespace mosaic::agents
