// Goal: each row of the check table answers its code through the real host, and where two rows fail
// at once the earlier one answers; a refused launch leaves nothing on disk. Method: break one
// thing, or two neighbouring things, in an otherwise good business.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// A way to make one check fail for a human's launch of `coder`, before the host starts.
struct Breaker {
    const char* code;
    void (*apply)(World&);
};

// A module with a provider that needs a credential and one whose program isn't there.
void add_module(World& world) {
    const std::string directory = world.root + "/modules/picky";
    write_text(directory + "/adapter.sh", "exec sh\n");
    write_text(directory + "/harness.json",
               read_text(std::string(MOSAIC_SOURCE_DIR) + "/tests/e2e/picky-harness.json"));
    world.system.set("pluginDirs", strings({(world.root + "/modules").c_str()}));
    world.system.set("plugins", object({{"harness", strings({"script", "picky"})}}));
}

void use_picky(World& world, const char* provider) {
    add_module(world);
    world.set_var("coder", "harness", "picky");
    world.set_var("coder", "provider", provider);
    json::Array models = *world.launch_block().find("models")->array();
    models.push_back(object({{"provider", provider}, {"model", kModel}, {"max", 4}}));
    world.launch_block().set("models", models);
}

// In the order of the table. Each may be applied after a later one.
const std::vector<Breaker> kBreakers = {
    {"launch-not-configured",
     [](World& world) {
         std::erase_if(*world.business.object(),
                       [](const json::Member& m) { return m.first == "launch"; });
     }},
    {"instance-not-listed",
     [](World& world) { world.launch_block().set("instances", strings({"tester"})); }},
    {"no-role-contract",
     [](World& world) { ::unlink((world.root + "/config/roles/coder.md").c_str()); }},
    {"no-route",
     [](World& world) {
         std::erase_if(*world.role("coder").find("vars")->object(),
                       [](const json::Member& m) { return m.first == "model"; });
     }},
    {"harness-off",
     [](World& world) {
         world.system.set("plugins", object({{"harness", strings({})}}));
     }},
    {"harness-refused",
     [](World& world) {
         std::erase_if(*world.role("coder").find("vars")->object(),
                       [](const json::Member& m) { return m.first == "script.command"; });
     }},
    {"thinking-unsupported", [](World& world) { world.set_var("coder", "thinking", "sideways"); }},
    {"no-session-credential", [](World& world) { use_picky(world, "guarded"); }},
    {"harness-missing", [](World& world) { use_picky(world, "open"); }},
    {"sandbox-unavailable",
     [](World& world) {
         world.system.set("sandbox", object({{"bwrap", world.root + "/no-bwrap"}}));
     }},
    {"workspace-missing",
     [](World& world) { world.role("coder").set("workspace", world.root + "/ws/none"); }},
    {"workspace-unsafe", [](World& world) { world.role("coder").set("workspace", world.home); }},
    {"unknown-model",
     [](World& world) {
         world.launch_block().set(
             "models", json::Array{object({{"provider", "other"}, {"model", kModel}, {"max", 4}})});
     }},
};

// Breakers of the route's own facts can't stand beside each other: they are values of one thing.
bool compatible(std::string_view first, std::string_view second) {
    const bool picky_first = first == "no-session-credential" || first == "harness-missing";
    const bool picky_second = second == "no-session-credential" || second == "harness-missing";
    if (picky_first && picky_second) {
        return false;
    }
    // Another module has other vars that it needs.
    if (picky_second && first == "harness-refused") {
        return false;
    }
    return !(first == "workspace-missing" && second == "workspace-unsafe");
}

void expect_refused(World& world, std::string_view code) {
    CAPTURE(code);
    const auto before = names_in(world.data + "/launches/acme");
    CHECK(world.launch_refused("coder") == code);
    CHECK(!world.refusal_message.empty());
    const auto lines = world.wait_log_count("refused", 1);
    CHECK(text(lines.back(), "code") == code);
    CHECK(text(lines.back(), "instance") == "coder");
    CHECK(text(lines.back(), "by") == "jordan");
    CHECK(names_in(world.data + "/launches/acme") == before);
    CHECK(world.sessions().empty());
    bool event_seen = false;
    for (const json::Value& event : world.events()) {
        event_seen =
            event_seen || (text(event, "type") == "action.refused" && text(event, "code") == code);
    }
    CHECK(event_seen);
}

}  // namespace

TEST_CASE("each row of the check table refuses with its code and makes nothing") {
    for (const Breaker& breaker : kBreakers) {
        CAPTURE(breaker.code);
        World world;
        breaker.apply(world);
        world.start();
        expect_refused(world, breaker.code);
    }
}

TEST_CASE("when two neighbouring rows fail the earlier one answers") {
    for (size_t i = 0; i + 1 < kBreakers.size(); ++i) {
        // The next row that can fail together with this one.
        size_t next = i + 1;
        while (next < kBreakers.size() && !compatible(kBreakers[i].code, kBreakers[next].code)) {
            ++next;
        }
        if (next == kBreakers.size()) {
            continue;
        }
        CAPTURE(kBreakers[i].code);
        CAPTURE(kBreakers[next].code);
        World world;
        kBreakers[next].apply(world);
        kBreakers[i].apply(world);
        world.start();
        expect_refused(world, kBreakers[i].code);
    }
}

TEST_CASE("a running seat refuses before its contract is looked at") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    CHECK(world.launch_refused("coder") == "instance-running");
    ::unlink((world.root + "/config/roles/coder.md").c_str());
    CHECK(world.launch_refused("coder") == "instance-running");
    world.stop_run(run);
    world.wait_log("end", run);
    CHECK(world.launch_refused("coder") == "no-role-contract");
}

TEST_CASE("a contract that others may write tells no session what to do") {
    World world;
    world.start();
    const std::string contract = world.root + "/config/roles/coder.md";
    REQUIRE(::chmod(contract.c_str(), 0666) == 0);
    CHECK(world.launch_refused("coder") == "no-role-contract");
    REQUIRE(::chmod(contract.c_str(), 0600) == 0);
    const std::string run = text(world.launch("coder"), "run");
    world.stop_run(run);
    world.wait_log("end", run);
}

TEST_CASE("capacity counts every session of the model and is given back") {
    World world;
    world.launch_block().set(
        "models", json::Array{object({{"provider", kProvider}, {"model", kModel}, {"max", 2}})});
    world.start();
    world.launch("pm");
    const std::string coder = text(world.launch("coder"), "run");
    CHECK(world.launch_refused("reviewer") == "capacity-full");
    world.stop_run(coder);
    world.wait_log("end", coder);
    world.launch("reviewer");
}

TEST_CASE("the PM can't launch itself and only the human launches the PM") {
    World world;
    world.start();
    world.launch("pm");
    const std::string answer = world.ask(
        "pm", "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"pm\"}' 2>&1 || true");
    // Listed comes before running.
    CHECK_CONTAINS(answer, "instance-not-listed");
}

TEST_CASE("revoked launches bind sessions and not the human") {
    World world;
    world.start();
    world.launch("pm");
    CHECK(world.mosaic({"launches", "revoke"}).exit.code == 0);
    const std::string tool =
        "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}' 2>&1 || true";
    CHECK_CONTAINS(world.ask("pm", tool), "launch-revoked");
    world.launch("coder");
    world.stop_run("coder");
    CHECK(world.mosaic({"launches", "allow"}).exit.code == 0);
    CHECK_CONTAINS(world.ask("pm", tool), "\"run\":\"r");
    size_t switched = 0;
    for (const json::Value& event : world.events()) {
        switched += text(event, "type") == "launches.switched" ? 1U : 0U;
    }
    CHECK(switched == 2);
}

TEST_CASE("a full model answers before revoked launches do") {
    World world;
    world.launch_block().set(
        "models", json::Array{object({{"provider", kProvider}, {"model", kModel}, {"max", 1}})});
    world.start();
    world.launch("pm");
    CHECK(world.mosaic({"launches", "revoke"}).exit.code == 0);
    CHECK_CONTAINS(
        world.ask("pm",
                  "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}' 2>&1 || true"),
        "capacity-full");
}

TEST_CASE("a role whose authority has role.launch launches and the record names it") {
    World world;
    world.set_var("reviewer", "limits.typed", strings({"launch"}));
    world.role("reviewer")
        .set("authority",
             object({{"withinRole", strings({"message.send", "role.launch"})},
                     {"crossRole", json::Array{}},
                     {"gated", json::Array{}}}));
    world.start();
    world.launch("reviewer");
    CHECK_CONTAINS(
        world.ask("reviewer", "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}'"),
        "\"run\":\"r");
    CHECK(text(world.wait_log_count("launch", 2)[1], "launchedBy") == "reviewer");
}

TEST_CASE("a gated launch asks for a decision and names it") {
    World world;
    world.role("pm").set("authority",
                         object({{"withinRole", strings({"message.send"})},
                                 {"crossRole", strings({"message.send"})},
                                 {"gated", strings({"role.launch"})}}));
    world.start();
    world.launch("pm");
    const std::string answer = world.ask(
        "pm", "/run/mosaic/mosaic-runner tool launch '{\"instance\":\"coder\"}' 2>&1 || true");
    CHECK_CONTAINS(answer, "decision-required");
    std::string decision;
    for (const json::Value& event : world.events()) {
        if (text(event, "type") == "decision.requested") {
            decision = text(event, "id");
            CHECK(text(event, "by") == "pm");
            CHECK(text(event, "verb") == "role.launch");
        }
    }
    REQUIRE(!decision.empty());
    CHECK_CONTAINS(answer, decision);
}

TEST_CASE("a workspace that holds or lies in something protected is unsafe") {
    World world;
    const std::string link = world.root + "/ws/link";
    std::filesystem::create_directory_symlink(world.data, link);
    std::filesystem::create_directories(world.data + "/inside");
    std::filesystem::permissions(world.data, std::filesystem::perms::owner_all);
    const std::vector<std::string> paths = {
        "/",
        "/usr",
        "/etc",
        world.home,
        world.root,
        world.root + "/",
        world.data,
        world.data + "/../data",
        link,
        world.data + "/inside",
        world.root + "/config",
        world.root + "/config/roles",
        world.workspace("reviewer"),
    };
    for (size_t i = 0; i < paths.size(); ++i) {
        const std::string name = "unsafe" + std::to_string(i);
        json::Value copy = world.role("coder");
        copy.set("workspace", paths[i]);
        world.business.find("roles")->set(name, copy);
        world.launch_block().find("instances")->array()->emplace_back(name);
    }
    world.start();
    for (size_t i = 0; i < paths.size(); ++i) {
        CAPTURE(paths[i]);
        CHECK(world.launch_refused("unsafe" + std::to_string(i)) == "workspace-unsafe");
    }
    CHECK(world.sessions().empty());
}

TEST_CASE("a contract that lies in a workspace keeps that workspace from being used") {
    World world;
    const std::string contract = world.root + "/config/roles/coder.md";
    const std::string there = world.workspace("reviewer") + "/coder.md";
    std::filesystem::rename(contract, there);
    std::filesystem::create_symlink(there, contract);
    world.start();
    CHECK(world.launch_refused("reviewer") == "workspace-unsafe");
    world.stop_run(text(world.launch("coder"), "run"));
}

TEST_CASE("a contract that is made a link into a workspace is read again only after a reload") {
    World world;
    world.start();
    const std::string contract = world.root + "/config/roles/coder.md";
    const std::string there = world.workspace("reviewer") + "/coder.md";
    std::filesystem::rename(contract, there);
    std::filesystem::create_symlink(there, contract);
    CHECK(world.launch_refused("coder") == "no-role-contract");
    CHECK_CONTAINS(world.host_log(), "leads elsewhere than when the configuration was read");
    REQUIRE(world.mosaic({"reload"}).exit.code == 0);
    world.stop_run(text(world.launch("coder"), "run"));
    CHECK(world.launch_refused("reviewer") == "workspace-unsafe");
}

TEST_CASE("one workspace serves two instances only when both say so") {
    World world;
    world.role("reviewer").set("workspace", world.workspace("coder"));
    world.role("reviewer").set("sharedWorkspace", true);
    world.role("coder").set("sharedWorkspace", true);
    world.role("tester").set("workspace", world.workspace("pm"));
    world.role("tester").set("sharedWorkspace", true);
    world.start();
    world.launch("coder");
    world.launch("reviewer");
    world.ask("coder", "echo shared > common.txt");
    CHECK(trim(world.ask("reviewer", "cat common.txt")) == "shared");
    CHECK(world.launch_refused("tester") == "workspace-unsafe");
}

TEST_CASE("a thread store that is a link or not ours to trust is refused") {
    World world;
    world.start();
    const std::string threads = world.data + "/threads/acme/coder";
    std::filesystem::create_directories(world.root + "/elsewhere");
    const std::string run = text(world.launch("coder", "t1"), "run");
    world.stop_run(run);
    world.wait_log("end", run);
    std::filesystem::create_directory_symlink(world.root + "/elsewhere", threads + "/t2");
    const std::string code = world.launch_refused("coder", "t2");
    CHECK(code == "thread-unsafe");
    CHECK(names_in(world.root + "/elsewhere").empty());
}

TEST_CASE("a directory of ours that became a link refuses with storage-unavailable") {
    World world;
    world.start();
    const std::string directory = world.data + "/launches/acme";
    std::filesystem::create_directories(world.root + "/elsewhere");
    std::filesystem::remove_all(directory);
    std::filesystem::create_directory_symlink(world.root + "/elsewhere", directory);
    CHECK(world.launch_refused("coder") == "storage-unavailable");
    CHECK(names_in(world.root + "/elsewhere").empty());
    std::filesystem::remove(directory);
}

TEST_CASE("of many launches at once of one seat exactly one is granted") {
    World world;
    world.start();
    LineStream admin = world.admin();
    std::vector<int64_t> ids;
    for (int i = 0; i < 10; ++i) {
        ids.push_back(admin.ask("launch", object({{"instance", "coder"}})));
    }
    int granted = 0;
    int running = 0;
    for (const int64_t id : ids) {
        const json::Value reply = admin.reply(id);
        if (*reply.find("ok") == json::Value(true)) {
            ++granted;
        } else if (text(reply, "error") == "instance-running") {
            ++running;
        }
    }
    CHECK(granted == 1);
    CHECK(running == 9);
    CHECK(world.sessions().size() == 1);
}

TEST_CASE("of many launches at once no more are granted than the model has room for") {
    World world;
    json::Array instances;
    for (int i = 0; i < 10; ++i) {
        const std::string name = "seat" + std::to_string(i);
        std::filesystem::create_directories(world.workspace(name));
        json::Value copy = world.role("coder");
        copy.set("workspace", world.workspace(name));
        world.business.find("roles")->set(name, copy);
        instances.emplace_back(name);
    }
    world.launch_block().set("instances", instances);
    world.launch_block().set(
        "models", json::Array{object({{"provider", kProvider}, {"model", kModel}, {"max", 3}})});
    world.start();
    LineStream admin = world.admin();
    std::vector<int64_t> ids;
    for (int i = 0; i < 10; ++i) {
        ids.push_back(admin.ask("launch", object({{"instance", "seat" + std::to_string(i)}})));
    }
    int granted = 0;
    int full = 0;
    for (const int64_t id : ids) {
        const json::Value reply = admin.reply(id);
        if (*reply.find("ok") == json::Value(true)) {
            ++granted;
        } else if (text(reply, "error") == "capacity-full") {
            ++full;
        }
    }
    CHECK(granted == 3);
    CHECK(full == 7);
    for (const json::Value& row : world.ps()) {
        world.stop_run(text(row, "run"));
    }
    CHECK(world.wait_sessions(0));
    for (int i = 0; i < 3; ++i) {
        world.launch("seat" + std::to_string(i));
    }
}
