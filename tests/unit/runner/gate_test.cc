// Goal: a tool call is allowed only when it is granted and every path of it stays in the workspace.
// Method: a table of questions against a real tree of directories and links.

#include "runner/gate.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runner/gate_path.h"

using namespace mosaic;
using namespace mosaic::runner;

namespace {

namespace fs = std::filesystem;

constexpr const char* kPolicy = R"({
  "workspace": "@/work",
  "toolPointer": "/tool_name",
  "inputPointer": "/tool_input",
  "allow": {"decision": "allow"},
  "deny": {"decision": "deny", "why": ["no: ${reason}", {"again": "${reason}${reason}"}], "n": 1},
  "tools": {
    "Shell": {"paths": [], "writes": true},
    "Read": {"paths": ["file_path"], "writes": false},
    "Write": {"paths": ["file_path", "also"], "writes": true}
  },
  "typed": ["mcp__mosaic__launch"],
  "controlPaths": [".agent", ".agent.json", "linked-control", "dangling-control"]
})";

// The workspace, what lies around it, and links of every kind.
class Tree {
  public:
    Tree() {
        std::string name = MOSAIC_BUILD_DIR "/gate-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root = fs::canonical(name).string();
        for (const char* one : {"work/sub/deep",
                                "work/.agent",
                                "work/conf",
                                "work/caf\u00e9",
                                "work/odd",
                                "work2",
                                "outside/dir",
                                "home"}) {
            fs::create_directories(root + "/" + one);
        }
        for (const char* one : {"work/file",
                                "work/sub/deep/file",
                                "work/.agent/settings",
                                "outside/secret",
                                "outside/dir/secret",
                                "work2/file",
                                "home/file",
                                "work/conf/c",
                                "work/caf\u00e9/file"}) {
            std::ofstream(root + "/" + one) << "x";
        }
        link("file", "work/link-in");
        link("sub", "work/link-dir-in");
        link(root + "/work/sub", "work/link-abs-in");
        link("../outside/secret", "work/link-out");
        link(root + "/outside", "work/link-dir-out");
        link("not-yet", "work/dangling-in");
        link("../outside/not-yet", "work/dangling-out");
        link("link-b", "work/link-a");
        link("link-a", "work/link-b");
        link("/proc/self/cwd", "work/proc-cwd");
        link("sub/deep", "work/far");
        link("work", "way-in");
        link("conf", "work/linked-control");
        link("nowhere/x", "work/dangling-control");
        link("conf", "work/alias-of-conf");
        link(".agent", "work/alias-of-agent");
        link("../../outside", "work/odd/don\u2019t");
        policy_text = kPolicy;
        policy_text.replace(policy_text.find("@/"), 1, root);
        auto parsed = parse_gate_policy(policy_text, "gate.json");
        REQUIRE_MESSAGE(parsed.has_value(), parsed.error().text);
        policy = *parsed;
    }

    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    ~Tree() { fs::remove_all(root); }

    void link(const std::string& target, const std::string& name) const {
        fs::remove(root + "/" + name);
        fs::create_symlink(target, root + "/" + name);
    }

    // "@" at the start of a path stands for the tree, "@@" for an at sign.
    [[nodiscard]] std::string real(std::string path) const {
        if (path.starts_with("@@")) {
            return path.substr(1);
        }
        return path.starts_with("@/") ? root + path.substr(1) : path;
    }

    [[nodiscard]] GateDecision ask(const std::string& tool, json::Value input) const {
        json::Value question;
        question.set("session", "s");
        question.set("tool_name", tool);
        question.set("tool_input", std::move(input));
        return gate_decision(policy, json::dump(question), root + "/home");
    }

    [[nodiscard]] GateDecision path(const std::string& tool, const std::string& text) const {
        return ask(tool, json::Object{{"file_path", real(text)}});
    }

    std::string root;
    std::string policy_text;
    GatePolicy policy;
};

struct Row {
    const char* path;
    bool read;
    bool write;
};

// What Read and Write may do with each path.
constexpr Row kRows[] = {
    // plain
    {"file", true, true},
    {"./file", true, true},
    {"sub//deep/./file", true, true},
    {"@/work/file", true, true},
    {"@/work", true, true},
    {"@/work/", true, true},
    {".", true, true},
    {"sub/new", true, true},
    {"new/and/newer", true, true},
    {"file/below-a-file", true, true},
    {"a b", true, true},
    {"..name", true, true},
    {"a..b", true, true},
    {"...", true, true},
    // outside
    {"/etc/passwd", false, false},
    {"/", false, false},
    {"@/outside/secret", false, false},
    {"@/work2/file", false, false},
    {"@/workfile", false, false},
    {"@/work/../outside/secret", false, false},
    {"..", false, false},
    {"../work2/file", false, false},
    {"../outside/new", false, false},
    {"sub/../../outside/secret", false, false},
    {"not-there/../../outside/secret", false, false},
    {"/proc/self/environ", false, false},
    {"/proc/self/root/etc/passwd", false, false},
    {"/proc/1/cwd/file", false, false},
    {"//etc/passwd", false, false},
    // dots that stay inside
    {"sub/../file", true, true},
    {"../work/file", true, true},
    {"@/outside/../work/file", true, true},
    {"not-there/../file", true, true},
    // links
    {"link-in", true, true},
    {"link-dir-in/deep/file", true, true},
    {"link-abs-in/deep/file", true, true},
    {"@/way-in/file", true, true},
    {"link-out", false, false},
    {"link-dir-out/secret", false, false},
    {"link-dir-out/new", false, false},
    {"link-dir-out", false, false},
    {"link-dir-out/dir/../secret", false, false},
    {"sub/../link-out", false, false},
    {"dangling-in", true, true},
    {"dangling-out", false, false},
    {"dangling-out/below", false, false},
    {"link-a", false, false},
    {"link-a/below", false, false},
    {"proc-cwd", false, false},
    {"proc-cwd/file", false, false},
    // Out of "far", a step up is sub to the kernel and the workspace's parent to a reader of text.
    {"far/../../file", false, false},
    {"far/../../../outside/secret", false, false},
    {"far/../new", true, true},
    // Where only the text stays inside.
    {"link-dir-out/../file", false, false},
    // what programs make of a path
    {"~", false, false},
    {"~/file", false, false},
    {"~/../work/file", true, true},
    {"~root/file", false, false},
    {"~draft", false, false},
    {"./~draft", true, true},
    {"sub/~", true, true},
    {"@@/etc/passwd", false, false},
    {"@@file", true, true},
    {"@@", true, true},
    {"@@~/file", false, false},
    {"@@../outside/secret", false, false},
    {"file:///etc/passwd", false, false},
    {"@@file:///etc/passwd", false, false},
    {"", false, false},
    {" /etc/passwd", false, false},
    {"file ", false, false},
    {"\t/etc/passwd", false, false},
    {"a\nb", false, false},
    {"a\x7f", false, false},
    {"a\u00a0b", false, false},
    {"\ufeff/etc/passwd", false, false},
    {"\u212aelvin", false, false},
    // patterns
    {"**/*.ts", true, true},
    {"src/{a,b}/*.{ts,js}", true, true},
    {"@/work/**", true, true},
    {"app/(..)photo/[id]", true, true},
    {"/etc/*", false, false},
    {"../*", false, false},
    {"{..,x}/*", false, false},
    {"x/{y,../../..}/*", false, false},
    {"{/etc,x}/*", false, false},
    {"{x,/etc}/*", false, false},
    {"{x,~}/*", false, false},
    // names that aren't ASCII
    {"caf\u00e9/file", true, true},
    {"caf\u00e9/new", true, true},
    {"\u6587\u6863/new", true, true},
    {"odd/don't", false, false},
    {"odd/don't/secret", false, false},
    {"odd/d\u00e9", false, false},
    {"odd/don\u2019t/secret", false, false},
    // what would configure the harness
    {".agent", true, false},
    {".agent/settings", true, false},
    {".agent/new/file", true, false},
    {".agent.json", true, false},
    {".agent.jsonl", true, true},
    {"./sub/../.agent/settings", true, false},
    {"alias-of-agent/settings", true, false},
    {"linked-control/c", true, false},
    {"conf/c", true, false},
    {"alias-of-conf/new", true, false},
    {"nowhere/x", true, false},
    {"nowhere/y", true, true},
    {"sub/.agent/settings", true, true},
};

}  // namespace

TEST_CASE("a file tool is allowed for paths that end in the workspace, by every way to read them") {
    const Tree tree;
    for (const Row& row : kRows) {
        const std::string path = row.path;
        CAPTURE(path);
        const GateDecision read = tree.path("Read", row.path);
        const GateDecision write = tree.path("Write", row.path);
        CAPTURE(read.reason);
        CAPTURE(write.reason);
        CHECK(read.allowed == row.read);
        CHECK(write.allowed == row.write);
        CHECK(read.reason.empty() == read.allowed);
        CHECK(write.reason.empty() == write.allowed);
    }
}

TEST_CASE("every path argument counts, and one that isn't there means the workspace") {
    const Tree tree;
    const auto write = [&](json::Object input) { return tree.ask("Write", std::move(input)); };
    CHECK(write({}).allowed);
    CHECK(write({{"file_path", "file"}, {"also", "sub"}}).allowed);
    CHECK_FALSE(write({{"file_path", "file"}, {"also", "../outside"}}).allowed);
    CHECK_FALSE(write({{"also", "link-out"}, {"file_path", "file"}}).allowed);
    CHECK(write({{"file_path", json::Array{"file", "sub/x"}}}).allowed);
    CHECK(write({{"file_path", json::Array{}}}).allowed);
    CHECK_FALSE(write({{"file_path", json::Array{"file", "/etc/passwd"}}}).allowed);
    CHECK_FALSE(write({{"file_path", json::Array{json::Array{"file"}}}}).allowed);
    for (const json::Value& wrong : {json::Value(), json::Value(1), json::Value(json::Object{})}) {
        const auto decision = write({{"file_path", wrong}});
        CHECK_FALSE(decision.allowed);
        CHECK(decision.reason.find("file_path must be a path, found ") != std::string::npos);
    }
    // Other arguments are none of the gate's.
    CHECK(write({{"file_path", "file"}, {"content", "/etc/passwd"}}).allowed);
}

TEST_CASE("only what is granted is allowed") {
    const Tree tree;
    CHECK(tree.ask("Shell", json::Object{{"command", "cat /etc/passwd"}}).allowed);
    CHECK(tree.ask("mcp__mosaic__launch", json::Object{{"file_path", "/etc"}}).allowed);
    for (const char* tool :
         {"Edit", "read", "Read ", "", "mcp__mosaic__", "mcp__other__launch", "*"}) {
        CAPTURE(tool);
        const GateDecision decision = tree.ask(tool, json::Object{});
        CHECK_FALSE(decision.allowed);
        CHECK(decision.reason.ends_with(
            "isn't granted to this role; granted: Read, Shell, Write, mcp__mosaic__launch"));
    }
    GatePolicy nothing = tree.policy;
    nothing.tools.clear();
    nothing.typed.clear();
    CHECK(gate_decision(nothing, R"({"tool_name":"Read","tool_input":{}})", "").reason ==
          "the tool Read isn't granted to this role; granted: none");
}

TEST_CASE("with a shell granted nothing in the workspace is kept from file tools") {
    Tree tree;
    tree.policy.control_paths.clear();
    CHECK(tree.path("Write", ".agent/settings").allowed);
    CHECK_FALSE(tree.path("Write", "link-out").allowed);
}

TEST_CASE("a link that is swapped after an answer is followed anew for the next") {
    const Tree tree;
    CHECK(tree.path("Write", "link-in").allowed);
    tree.link("../outside/secret", "work/link-in");
    CHECK_FALSE(tree.path("Write", "link-in").allowed);
    CHECK_FALSE(tree.path("Read", "link-in").allowed);
    tree.link("sub/deep/file", "work/link-in");
    CHECK(tree.path("Read", "link-in").allowed);
    // A control path that becomes one.
    CHECK(tree.path("Write", "sub/deep/file").allowed);
    tree.link("sub/deep/file", "work/.agent.json");
    CHECK_FALSE(tree.path("Write", "sub/deep/file").allowed);
    tree.link(".agent.json", "work/.agent.json");
    CHECK_FALSE(tree.path("Write", "file").allowed);
}

TEST_CASE("a link of /proc is refused where it leads into the workspace for the gate alone") {
    const Tree tree;
    const fs::path before = fs::current_path();
    fs::current_path(tree.root + "/work");
    const GateDecision decision = tree.path("Read", "proc-cwd/file");
    fs::current_path(before);
    CHECK_FALSE(decision.allowed);
    CHECK(decision.reason.find("/proc") != std::string::npos);
}

TEST_CASE("the workspace may be named by a link") {
    Tree tree;
    tree.policy.workspace = tree.root + "/way-in";
    CHECK(tree.path("Read", "file").allowed);
    CHECK(tree.path("Read", "@/work/file").allowed);
    CHECK_FALSE(tree.path("Read", "link-out").allowed);
    tree.policy.workspace = tree.root + "/gone";
    CHECK_FALSE(tree.path("Read", "file").allowed);
    CHECK(tree.ask("Shell", json::Object{}).allowed);
}

TEST_CASE("~ means nothing without a home, and a home in the workspace may be used") {
    const Tree tree;
    const std::string question = R"({"tool_name":"Read","tool_input":{"file_path":"~/deep/file"}})";
    CHECK_FALSE(gate_decision(tree.policy, question, "").allowed);
    CHECK_FALSE(gate_decision(tree.policy, question, "relative").allowed);
    CHECK(gate_decision(tree.policy, question, tree.root + "/work/sub").allowed);
}

TEST_CASE("a question that can't be read is denied") {
    const Tree tree;
    for (const std::string& question : std::vector<std::string>{
             "",
             "{",
             "null",
             "[]",
             "\"Shell\"",
             "{}",
             R"({"tool_name":"Shell"})",
             R"({"tool_name":"Shell","tool_input":null})",
             R"({"tool_name":"Shell","tool_input":[]})",
             R"({"tool_name":["Shell"],"tool_input":{}})",
             R"({"tool_name":"Shell","tool_input":{}} {})",
             R"({"tool_name":"Edit","tool_name":"Shell","tool_input":{}})",
             R"({"tool_name":"Read","tool_input":{"file_path":"file","file_path":"/etc/passwd"}})",
             "{\"tool_name\":\"Shell\",\"tool_input\":{\"x\":\"\xff\"}}",
             R"({"tool_name":"Shell","tool_input":{"x":)" + std::string(100, '[') +
                 std::string(100, ']') + "}}"}) {
        CAPTURE(question);
        const GateDecision decision = gate_decision(tree.policy, question, "");
        CHECK_FALSE(decision.allowed);
        CHECK_FALSE(decision.reason.empty());
    }
}

TEST_CASE("pointers reach into objects, arrays and escaped names") {
    Tree tree;
    tree.policy.tool_pointer = "/a~1b/1/~0";
    tree.policy.input_pointer = "/in";
    CHECK(gate_decision(tree.policy, R"({"a/b":[0,{"~":"Shell"}],"in":{}})", "").allowed);
    for (const char* question : {R"({"a/b":[{"~":"Shell"}],"in":{}})",
                                 R"({"a/b":{"2":{"~":"Shell"}},"in":{}})",
                                 R"({"a/b":"Shell","in":{}})"}) {
        CHECK_FALSE(gate_decision(tree.policy, question, "").allowed);
    }
}

TEST_CASE("the answer is the module's document, with the reason wherever it asks for it") {
    const Tree tree;
    CHECK(gate_answer(tree.policy, {true, ""}) == R"({"decision":"allow"})");
    CHECK(gate_answer(tree.policy, {false, "a \"${reason}\""}) ==
          R"({"decision":"deny","why":["no: a \"${reason}\"",)"
          R"({"again":"a \"${reason}\"a \"${reason}\""}],"n":1})");
}

TEST_CASE("a reason names tool, argument, path and what is right") {
    const Tree tree;
    CHECK(tree.path("Read", "link-out").reason ==
          "Read: file_path \"link-out\" leads to " + tree.root +
              "/outside/secret, outside the workspace " + tree.root + "/work");
    CHECK(tree.path("Write", ".agent/settings").reason ==
          "Write: file_path \".agent/settings\" would configure the harness (.agent); "
          "this role may not write there");
    CHECK(tree.path("Read", std::string(5000, 'x')).reason.size() < 500);
}

TEST_CASE("a policy of another shape is no policy") {
    const Tree tree;
    const auto wrong = [&](const std::string& from, const std::string& to) {
        std::string text = tree.policy_text;
        const size_t found = text.find(from);
        REQUIRE(found != std::string::npos);
        text.replace(found, from.size(), to);
        const auto parsed = parse_gate_policy(text, "gate.json");
        return parsed ? std::string() : parsed.error().text;
    };
    CHECK(wrong("\"workspace\": \"/", "\"workspace\": \"") ==
          "gate.json: /workspace: expected an absolute path");
    CHECK(wrong("\"/tool_name\"", "\"\"") == "gate.json: /toolPointer: expected a JSON pointer");
    CHECK(wrong("\"typed\"", "\"tipped\"").starts_with("gate.json: /"));
    CHECK(wrong("\"paths\": [], ", "").starts_with("gate.json: /tools/Shell/paths"));
    CHECK(
        wrong("\"writes\": true}", "\"writes\": 1}").starts_with("gate.json: /tools/Shell/writes"));
    CHECK(wrong("\"typed\": [", "\"more\": 1, \"typed\": [").starts_with("gate.json: /more"));
    CHECK(wrong("}", "").starts_with("gate.json: byte "));
}
