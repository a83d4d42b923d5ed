// Goal: routes, limits, instances and modules are changed while the host runs, by who may, whole or
// not at all. Method: the real commands on a running host; a stand-in runner for a session's verbs.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"
#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// A module whose provider `guarded` needs a credential and whose program isn't there.
void add_picky(World& world) {
    const std::string directory = world.root + "/modules/picky";
    write_text(directory + "/adapter.sh", "exec sh\n");
    write_text(directory + "/harness.json",
               read_text(std::string(MOSAIC_SOURCE_DIR) + "/tests/e2e/picky-harness.json"));
    world.system.set("pluginDirs", strings({(world.root + "/modules").c_str()}));
    world.system.set("plugins", object({{"harness", strings({"script", "picky"})}}));
}

json::Value refused(const World& world, std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Finished done = world.mosaic(arguments);
    CHECK_MESSAGE(done.exit.code == 3, done.err);
    return done.json();
}

bool changed(const World& world, std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Finished done = world.mosaic(arguments);
    REQUIRE_MESSAGE(done.exit.code == 0, done.err);
    return *done.json().find("changed")->boolean();
}

json::Value file(const std::string& path) {
    const auto value = json::parse(read_text(path), {16});
    REQUIRE(value);
    return *value;
}

std::string var(const World& world, std::string_view instance, std::string_view name) {
    const json::Value business = file(world.business_file);
    return text(*business.find("roles")->find(instance)->find("vars"), name);
}

std::vector<std::string> keys(const json::Value& object) {
    std::vector<std::string> out;
    for (const json::Member& member : *object.object()) {
        out.push_back(member.first);
    }
    return out;
}

size_t count_events(const World& world, std::string_view type) {
    size_t out = 0;
    for (const json::Value& event : world.events()) {
        out += text(event, "type") == type ? 1U : 0U;
    }
    return out;
}

// Waits until such an event is there.
void wait_event(const World& world, std::string_view type) {
    LineStream admin = world.admin();
    int64_t since = 0;
    for (;;) {
        const json::Value reply =
            admin.request("events", object({{"since", since}, {"follow", true}}));
        const json::Value* result = reply.find("result");
        REQUIRE_MESSAGE(result != nullptr, json::dump(reply));
        for (const json::Value& event : *result->find("events")->array()) {
            if (text(event, "type") == type) {
                return;
            }
        }
        since = number(*result, "next");
    }
}

const json::Value* routes_of(const json::Value& routes, std::string_view instance) {
    for (const json::Value& one : *routes.find("instances")->array()) {
        if (text(one, "instance") == instance) {
            return &one;
        }
    }
    return nullptr;
}

json::Value more_models(World& world, std::initializer_list<const char*> models) {
    json::Array list = *world.launch_block().find("models")->array();
    for (const char* model : models) {
        list.push_back(object({{"provider", kProvider}, {"model", model}, {"max", 4}}));
    }
    return json::Value(list);
}

}  // namespace

TEST_CASE("a route that is set counts for the next launch and stays out of running sessions") {
    World world;
    world.launch_block().set("models", more_models(world, {"other"}));
    world.start();
    const json::Value before = world.launch("coder");
    const json::Value was = file(world.business_file);
    CHECK(changed(world, {"routes", "set", "coder", "--model", "other"}));
    CHECK(trim(world.ask("coder", "echo $MOSAIC_MODEL")) == kModel);
    world.stop_run("coder");
    CHECK(text(world.launch("coder"), "model") == "other");
    CHECK(trim(world.ask("coder", "echo $MOSAIC_MODEL")) == "other");
    // Only the one value is another; everything else is there, in its order.
    json::Value now = file(world.business_file);
    CHECK(keys(now) == keys(was));
    CHECK(keys(*now.find("roles")->find("coder")->find("vars")) ==
          keys(*was.find("roles")->find("coder")->find("vars")));
    now.find("roles")->find("coder")->find("vars")->set("model", kModel);
    CHECK(now == was);
    const auto events = world.events();
    const json::Value& event = *std::find_if(events.begin(), events.end(), [](const auto& e) {
        return text(e, "type") == "routes.changed";
    });
    CHECK(text(event, "by") == "jordan");
    CHECK(text(event, "instance") == "coder");
    CHECK(text(*event.find("route"), "model") == "other");
    // The next host reads what this one wrote.
    world.stop();
    world.business = file(world.business_file);
    world.start();
    CHECK(text(world.launch("coder"), "model") == "other");
}

TEST_CASE("a value that is the same already is neither written nor told") {
    World world;
    world.start();
    const std::string before = read_text(world.business_file);
    CHECK_FALSE(changed(world, {"routes", "set", "coder", "--model", kModel}));
    CHECK_FALSE(changed(world, {"plugins", "set", "script"}));
    CHECK(read_text(world.business_file) == before);
    CHECK(count_events(world, "routes.changed") == 0);
}

TEST_CASE("a change that a launch would refuse changes nothing and names the code") {
    World world;
    add_picky(world);
    std::erase_if(*world.role("tester").find("vars")->object(),
                  [](const json::Member& m) { return m.first == "thinking"; });
    world.start();
    const std::string before = read_text(world.business_file);
    const auto set = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"routes", "set"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return text(refused(world, arguments), "error");
    };
    CHECK(set({"tester", "--model", "x"}) == "no-route");
    CHECK(set({"coder", "--harness", "pi"}) == "harness-off");
    CHECK(set({"coder", "--harness", "picky"}) == "harness-refused");
    CHECK(set({"coder", "--thinking", "much"}) == "thinking-unsupported");
    CHECK(set({"coder", "--harness", "picky", "--provider", "guarded"}) == "no-session-credential");
    CHECK(set({"coder", "--harness", "picky", "--provider", "open"}) == "harness-missing");
    CHECK(set({"coder", "--model", "no-such"}) == "unknown-model");
    CHECK(set({"coder", "--fallback-model", kModel}) == "config-invalid");
    CHECK(set({"coder",
               "--fallback-harness",
               "script",
               "--fallback-provider",
               kProvider,
               "--fallback-model",
               "no-such",
               "--fallback-thinking",
               kThinking}) == "unknown-model");
    CHECK(text(refused(world, {"limits", "set", "coder", "--model", "no-such"}), "error") ==
          "unknown-model");
    CHECK(text(refused(world, {"plugins", "set", "script", "nothing"}), "error") ==
          "harness-refused");
    const Finished unknown = world.mosaic({"routes", "set", "nobody", "--model", kModel, "--json"});
    CHECK(unknown.exit.code == 1);
    CHECK(text(unknown.json(), "error") == "not-found");
    CHECK(read_text(world.business_file) == before);
    CHECK(count_events(world, "routes.changed") == 0);
    // Routes that a change doesn't touch aren't its matter: tester has none.
    CHECK(changed(world, {"limits", "set", "coder", "--tools", "bash"}));
    world.launch("coder");
}

TEST_CASE("a fallback is set and taken away whole") {
    World world;
    world.start();
    CHECK(changed(world,
                  {"routes",
                   "set",
                   "coder",
                   "--fallback-harness",
                   "script",
                   "--fallback-provider",
                   kProvider,
                   "--fallback-model",
                   kModel,
                   "--fallback-thinking",
                   kThinking}));
    CHECK(var(world, "coder", "fallback.model") == kModel);
    CHECK(changed(world, {"routes", "set", "coder", "--no-fallback"}));
    const json::Value business = file(world.business_file);
    CHECK(business.find("roles")->find("coder")->find("vars")->find("fallback.model") == nullptr);
}

TEST_CASE("a file that changed on disk since it was read is not written over") {
    World world;
    world.start();
    world.business.set("human", "taylor");
    world.write_config();
    const std::string edited = read_text(world.business_file);
    CHECK(text(refused(world, {"limits", "set", "coder", "--tools", "bash"}), "error") ==
          "config-changed");
    CHECK(read_text(world.business_file) == edited);
    CHECK(text(refused(world, {"routes", "set", "coder", "--model", "no-such"}), "error") ==
          "unknown-model");
    // Read anew it is the base of changes.
    CHECK(changed(world, {"reload"}));
    CHECK(changed(world, {"limits", "set", "coder", "--tools", "bash"}));
    CHECK(text(file(world.business_file), "human") == "taylor");
    // The system file has its own answer.
    write_text(world.system_file, read_text(world.system_file) + "\n");
    CHECK(text(refused(world, {"plugins", "set", "--none"}), "error") == "config-changed");
}

TEST_CASE("a changed file keeps its mode and a link to it stays a link") {
    World world;
    world.write_config();
    const std::string real = world.root + "/config/real.json";
    std::filesystem::rename(world.business_file, real);
    std::filesystem::create_symlink(real, world.business_file);
    REQUIRE(::chmod(real.c_str(), 0640) == 0);
    StartOptions options;
    world.start(options);
    // start() writes the files anew, through the link.
    REQUIRE(std::filesystem::is_symlink(world.business_file));
    REQUIRE(::chmod(real.c_str(), 0640) == 0);
    CHECK(changed(world, {"limits", "set", "coder", "--typed", "message_send"}));
    CHECK(std::filesystem::is_symlink(world.business_file));

    struct stat facts {};

    REQUIRE(::stat(real.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0640);
    for (const auto& entry : std::filesystem::directory_iterator(world.root + "/config")) {
        CHECK_MESSAGE(!contains(entry.path().filename().string(), ".tmp"), entry.path().string());
    }
}

TEST_CASE("a directory that can't be written answers storage-unavailable and changes nothing") {
    World world;
    world.start();
    const std::string before = read_text(world.business_file);
    const std::string directory = world.root + "/config/businesses";
    REQUIRE(::chmod(directory.c_str(), 0500) == 0);
    CHECK(text(refused(world, {"limits", "set", "coder", "--tools", "bash"}), "error") ==
          "storage-unavailable");
    REQUIRE(::chmod(directory.c_str(), 0700) == 0);
    CHECK(read_text(world.business_file) == before);
    CHECK(changed(world, {"limits", "set", "coder", "--tools", "bash"}));
}

TEST_CASE("capacities and the list of instances are changed for the next launch") {
    World world;
    world.start();
    world.launch("coder");
    CHECK(changed(world, {"limits", "set", "--max", kProvider, kModel, "1"}));
    CHECK(world.launch_refused("reviewer") == "capacity-full");
    CHECK(changed(world, {"limits", "set", "--max", kProvider, kModel, "3", "--account-max", "2"}));
    world.launch("reviewer");
    CHECK(number(*file(world.business_file).find("launch"), "accountMax") == 2);
    CHECK(changed(world, {"limits", "set", "--account-max", "0"}));
    CHECK(file(world.business_file).find("launch")->find("accountMax") == nullptr);
    CHECK(changed(world, {"instances", "set", "coder", "reviewer"}));
    CHECK(world.launch_refused("tester") == "instance-not-listed");
    CHECK(text(refused(world, {"instances", "set", "coder", "nobody"}), "error") ==
          "config-invalid");
    CHECK(changed(world, {"instances", "set", "coder", "reviewer", "tester"}));
    world.launch("tester");
}

TEST_CASE("an instance is listed only with a route that a launch would take") {
    World world;
    world.launch_block().set("instances", strings({"reviewer"}));
    world.set_var("coder", "harness", "pi");
    world.start();
    const json::Value answer = refused(world, {"instances", "set", "reviewer", "coder"});
    CHECK(text(answer, "error") == "harness-off");
    CHECK_CONTAINS(text(answer, "message"), "coder");
    CHECK(changed(world, {"instances", "set", "reviewer", "tester"}));
}

TEST_CASE("modules are switched on and off while the host runs") {
    World world;
    add_picky(world);
    world.system.set("plugins", object({{"harness", strings({"script"})}}));
    world.start();
    const Finished listed = world.mosaic({"plugins", "--json"});
    REQUIRE(listed.exit.code == 0);
    std::string all;
    const json::Value modules = listed.json();
    for (const json::Value& module : *modules.array()) {
        all += text(module, "name") + (*module.find("on")->boolean() ? "+" : "-") + " ";
    }
    CHECK(all == "script+ claude-code- pi- picky- ");
    const std::string run = text(world.launch("coder"), "run");
    const Finished off = world.mosaic({"plugins", "set", "picky"});
    CHECK(off.exit.code == 0);
    CHECK_CONTAINS(off.err, "coder: harness-off");
    CHECK(world.launch_refused("reviewer") == "harness-off");
    CHECK(trim(world.ask("coder", "echo on")) == "on");
    CHECK(changed(world, {"plugins", "set", "script", "picky"}));
    world.launch("reviewer");
    CHECK(world.session(run).has_value());
    CHECK(count_events(world, "plugins.changed") == 2);
}

TEST_CASE("routes tells what each launch would take now and how much of a model is used") {
    World world;
    add_picky(world);
    world.launch_block().set("models", more_models(world, {"other"}));
    json::Value& coder = world.role("coder");
    for (const auto& [name, value] : {std::pair{"harness", "picky"},
                                      std::pair{"provider", "guarded"},
                                      std::pair{"fallback.harness", "script"},
                                      std::pair{"fallback.provider", kProvider},
                                      std::pair{"fallback.model", "other"},
                                      std::pair{"fallback.thinking", kThinking}}) {
        coder.find("vars")->set(name, value);
    }
    world.set_var("tester", "harness", "pi");
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const json::Value manifest = file(world.run_directory(run) + "/bundle/manifest.json");
    CHECK(text(*manifest.find("route"), "model") == "other");
    CHECK_CONTAINS(text(manifest, "routeReason"), "fallback: no session credential");
    const Finished done = world.mosaic({"routes", "--json"});
    REQUIRE_MESSAGE(done.exit.code == 0, done.err);
    const json::Value routes = done.json();
    const json::Value* one = routes_of(routes, "coder");
    REQUIRE(one != nullptr);
    CHECK(text(*one, "uses") == "fallback");
    CHECK(*one->find("route")->find("ok")->boolean() == false);
    CHECK(text(*one->find("route"), "error") == "no-session-credential");
    CHECK(*one->find("fallback")->find("ok")->boolean());
    CHECK_CONTAINS(text(*one, "reason"), "no-session-credential");
    one = routes_of(routes, "tester");
    CHECK(is_null(*one, "uses"));
    CHECK(text(*one, "error") == "harness-off");
    CHECK(text(*routes_of(routes, "pm"), "uses") == "route");
    const json::Array& models = *routes.find("models")->array();
    REQUIRE(models.size() == 2);
    CHECK(number(models[0], "used") == 0);
    CHECK(number(models[1], "used") == 1);
    CHECK(number(models[1], "max") == 4);
    const Finished shown = world.mosaic({"routes"});
    CHECK(shown.exit.code == 0);
    CHECK_CONTAINS(shown.out, "coder, route: no-session-credential");
    CHECK_CONTAINS(shown.out, "tester, route: harness-off");
}

TEST_CASE("a reload takes good files and keeps the old configuration with a bad one") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    write_text(world.business_file, "{\"id\": \"acme\", \"human\": 7}");
    const json::Value bad = refused(world, {"reload"});
    CHECK(text(bad, "error") == "config-invalid");
    CHECK_CONTAINS(text(bad, "message"), world.business_file + ": /human: expected a string");
    CHECK_CONTAINS(world.host_log(), "/human: expected a string");
    world.launch("reviewer");
    // A workspace that an edit made forbidden: another role's.
    json::Value& tester = world.role("tester");
    tester.set("workspace", world.workspace("coder"));
    world.business.set("human", "taylor");
    world.write_config();
    REQUIRE(::chmod(world.business_file.c_str(), 0666) == 0);
    CHECK(text(refused(world, {"reload"}), "error") == "config-invalid");
    REQUIRE(::chmod(world.business_file.c_str(), 0600) == 0);
    CHECK(changed(world, {"reload"}));
    CHECK(world.launch_refused("tester") == "workspace-unsafe");
    CHECK(world.session(run).has_value());
    CHECK(count_events(world, "config.reloaded") == 1);
    // Of another business it isn't.
    world.business.set("id", "other");
    write_text(world.business_file, json::dump(world.business));
    CHECK(text(refused(world, {"reload"}), "error") == "config-invalid");
    world.business.set("id", "acme");
}

TEST_CASE("a reload takes a module's new files or nothing when their tree can't be laid") {
    World world;
    add_picky(world);
    const std::string adapter = world.root + "/modules/picky/adapter.sh";
    const std::string program = world.root + "/bin/picky";
    write_text(program, "#!/bin/sh\n", 0755);
    world.set_var("coder", "harness", "picky");
    world.set_var("coder", "provider", "open");
    json::Array models = *world.launch_block().find("models")->array();
    models.push_back(object({{"provider", "open"}, {"model", kModel}, {"max", 4}}));
    world.launch_block().set("models", models);
    StartOptions options;
    options.more_env = {{"PICKY_PROGRAM", program}};
    world.start(options);
    const auto answer = [&] {
        world.launch("coder");
        const std::string out = trim(world.ask("coder", "x"));
        world.stop_run("coder");
        return out;
    };
    write_text(adapter, "echo old\n");
    CHECK(changed(world, {"reload"}));
    CHECK(answer() == "old");
    write_text(adapter, "echo new\n");
    const std::string stage = world.bus_host() + "/stage";
    REQUIRE(::chmod(stage.c_str(), 0500) == 0);
    CHECK(text(refused(world, {"reload"}), "error") == "storage-unavailable");
    REQUIRE(::chmod(stage.c_str(), 0700) == 0);
    CHECK(answer() == "old");
    CHECK(changed(world, {"reload"}));
    CHECK(answer() == "new");
    CHECK_FALSE(changed(world, {"reload"}));
}

TEST_CASE("a hangup signal opens the log anew and reads the configuration") {
    World world;
    world.start();
    world.launch_block().set("instances", strings({"reviewer"}));
    world.write_config();
    const std::string log = world.data + "/launches/acme.jsonl";
    std::filesystem::rename(log, log + ".1");
    world.host().signal(SIGHUP);
    wait_event(world, "config.reloaded");
    CHECK(world.launch_refused("coder") == "instance-not-listed");
    CHECK(world.wait_log_count("refused", 1).size() == 1);
    CHECK(exists(log));
}

TEST_CASE("a staged tree goes when no configuration and no session uses it any more") {
    World world;
    const std::string module = world.root + "/modules/copied";
    std::string description =
        read_text(std::string(MOSAIC_SOURCE_DIR) + "/plugins/harness/script/harness.json");
    for (size_t at = 0; (at = description.find("\"script", at)) != std::string::npos;) {
        description.replace(at, 7, "\"copied");
    }
    write_text(module + "/harness.json", description);
    write_text(module + "/adapter.sh", "exec sh # old\n");
    world.system.set("pluginDirs", strings({(world.root + "/modules").c_str()}));
    world.system.set("plugins", object({{"harness", strings({"script", "copied"})}}));
    world.set_var("coder", "harness", "copied");
    world.set_var("coder", "copied.command", "sh");
    world.start();
    const std::string stage = world.bus_host() + "/stage";
    // Those that have this adapter.
    const auto trees_with = [&](const std::string& text) {
        const auto names = names_in(stage);
        return std::count_if(names.begin(), names.end(), [&](const std::string& name) {
            return read_text(stage + "/" + name + "/module/adapter.sh") == text;
        });
    };
    const std::string run = text(world.launch("coder"), "run");
    REQUIRE(trees_with("exec sh # old\n") == 1);
    write_text(module + "/adapter.sh", "exec sh # new\n");
    world.host().signal(SIGHUP);
    wait_event(world, "config.reloaded");
    const std::string other = text(world.launch("reviewer"), "run");
    world.stop_run(other);
    world.wait_log("end", other);
    CHECK(trees_with("exec sh # old\n") == 1);
    CHECK(trees_with("exec sh # new\n") == 1);
    world.stop_run(run);
    CHECK(wait_for_change({stage}, [&] { return trees_with("exec sh # old\n") == 0; }));
    CHECK(trees_with("exec sh # new\n") == 1);
    world.stop();
    // What earlier hosts left goes at the start.
    const auto before = names_in(stage);
    write_text(stage + "/" + std::string(64, '0') + "/module/adapter.sh", "exec sh # older\n");
    write_text(stage + "/" + std::string(64, '1') + ".tmp/mosaic-runner", "half");
    world.start();
    CHECK(wait_for_change({stage}, [&] { return names_in(stage) == before; }));
    world.launch("coder");
}

TEST_CASE("a session with that authority sets limits of others and learns codes alone") {
    World world(World::Runner::puppet);
    world.role("pm").find("authority")->set("withinRole", strings({"message.send", "limits.set"}));
    world.role("pm").find("authority")->set("gated", strings({"instances.set"}));
    world.start();
    PuppetMaster masters(world, "pm");
    LineStream admin = world.admin();
    int64_t id = 0;
    Puppet pm = masters.launch(admin, id);
    const std::string cap = pm.capability();
    LineStream bus = pm.claim(cap);
    REQUIRE(admin.reply(id).find("result") != nullptr);
    const auto tools = [](const char* instance) {
        return object(
            {{"instance", instance}, {"vars", object({{"limits.tools", strings({"x"})}})}});
    };
    const json::Value done = bus.request("limits.set", tools("coder"), cap);
    REQUIRE_MESSAGE(done.find("result") != nullptr, json::dump(done));
    CHECK(*done.find("result")->find("changed")->boolean());
    CHECK(json::dump(*file(world.business_file)
                          .find("roles")
                          ->find("coder")
                          ->find("vars")
                          ->find("limits.tools")) == R"(["x"])");
    const json::Value own = bus.request("limits.set", tools("pm"), cap);
    CHECK(text(own, "error") == "not-authorized");
    const json::Value model =
        object({{"instance", "coder"}, {"vars", object({{"model", "no-such"}})}});
    const json::Value unknown = bus.request("limits.set", model, cap);
    CHECK(text(unknown, "error") == "unknown-model");
    CHECK(unknown.find("message") == nullptr);
    // What is a human's alone, and what a human decides first.
    for (const char* verb : {"routes", "routes.set", "plugins.set", "reload", "metrics"}) {
        CHECK(text(bus.request(verb, json::Object{}, cap), "error") == "not-human");
    }
    const json::Value list = object({{"instances", strings({"coder"})}});
    const json::Value gated = bus.request("instances.set", list, cap);
    CHECK(text(gated, "error") == "decision-required");
    CHECK(world.mosaic({"decide", text(gated, "decision"), "allow"}).exit.code == 0);
    CHECK(bus.request("instances.set", list, cap).find("result") != nullptr);
    CHECK(text(bus.request("instances.set", list, cap), "error") == "decision-required");
    const auto events = world.events();
    const json::Value& event = *std::find_if(events.begin(), events.end(), [](const auto& e) {
        return text(e, "type") == "limits.changed";
    });
    CHECK(text(event, "by") == "pm");
    pm.exit(0);
}

TEST_CASE("many changes at once are made one after the other") {
    World world;
    world.start();
    LineStream admin = world.admin();
    std::vector<int64_t> ids;
    for (int i = 1; i <= 20; ++i) {
        ids.push_back(admin.ask(
            "limits.set",
            object({{"models",
                     json::Array{
                         object({{"provider", kProvider}, {"model", kModel}, {"max", 4 + i}})}}})));
    }
    for (const int64_t id : ids) {
        const json::Value reply = admin.reply(id);
        CHECK_MESSAGE(reply.find("result") != nullptr, json::dump(reply));
    }
    const json::Value business = file(world.business_file);
    CHECK(number(business.find("launch")->find("models")->array()->front(), "max") == 24);
    CHECK(count_events(world, "limits.changed") == 20);
}

TEST_CASE("the manifest names the version of the very program that is bound") {
    World world;
    add_picky(world);
    const std::string bin = world.root + "/bin";
    const auto program = [&](const std::string& name, const std::string& body) {
        write_text(bin + "/" + name, "#!/bin/sh\n" + body, 0755);
    };
    // It says what it sees, so that the test can tell in which sandbox it was asked.
    program("v1",
            "echo asked >>/tmp/asked 2>/dev/null\n"
            "[ -z \"$PICKY_TOKEN\" ] && [ ! -e '" +
                world.workspace("coder") + "' ] && echo picky 1.2.3\n");
    program("v2", "echo 'picky v2.0.1 (stable)'\n");
    program("dumb", "echo no version here\n");
    const std::string link = bin + "/picky";
    std::filesystem::create_symlink(bin + "/v1", link);
    auto module = file(world.root + "/modules/picky/harness.json");
    module.find("program")->set("versionArgs", strings({"--version"}));
    write_text(world.root + "/modules/picky/harness.json", json::dump(module));
    world.set_var("coder", "harness", "picky");
    world.set_var("coder", "provider", "guarded");
    json::Array models = *world.launch_block().find("models")->array();
    models.push_back(object({{"provider", "guarded"}, {"model", kModel}, {"max", 4}}));
    world.launch_block().set("models", models);
    StartOptions options;
    options.more_env = {{"PICKY_PROGRAM", link}, {"PICKY_TOKEN", "stand-in"}};
    world.start(options);
    const auto version = [&] {
        const std::string run = text(world.launch("coder"), "run");
        const json::Value manifest = file(world.run_directory(run) + "/bundle/manifest.json");
        world.stop_run("coder");
        const json::Value* found = manifest.find("harnessVersion");
        REQUIRE(found != nullptr);
        return found->is_null() ? "null" : *found->string();
    };
    CHECK(version() == "1.2.3");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(bin + "/v2", link);
    CHECK(version() == "2.0.1");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(bin + "/dumb", link);
    CHECK(version() == "null");
    CHECK_CONTAINS(world.host_log(), "the version of " + bin + "/dumb is unknown");
}

TEST_CASE("a program that an updater replaces and deletes stays what a live session runs") {
    World world;
    add_picky(world);
    write_text(world.root + "/modules/picky/adapter.sh", "exec \"$MOSAIC_PROGRAM\"\n");
    auto module = file(world.root + "/modules/picky/harness.json");
    module.find("program")->set("versionArgs", strings({"--version"}));
    write_text(world.root + "/modules/picky/harness.json", json::dump(module));
    const std::string bin = world.root + "/bin";
    write_text(bin + "/1.0", "#!/bin/sh\necho 1.0.0\n", 0755);
    write_text(bin + "/2.0", "#!/bin/sh\necho 2.0.0\n", 0755);
    const std::string link = bin + "/picky";
    std::filesystem::create_symlink("1.0", link);
    json::Array models = *world.launch_block().find("models")->array();
    models.push_back(object({{"provider", "open"}, {"model", kModel}, {"max", 4}}));
    world.launch_block().set("models", models);
    for (const char* name : {"coder", "reviewer", "tester"}) {
        world.set_var(name, "harness", "picky");
        world.set_var(name, "provider", "open");
    }
    StartOptions options;
    options.more_env = {{"PICKY_PROGRAM", link}};
    world.start(options);
    const auto version_of = [&](const char* instance) {
        const std::string run = text(world.launch(instance), "run");
        return text(file(world.run_directory(run) + "/bundle/manifest.json"), "harnessVersion");
    };
    CHECK(version_of("coder") == "1.0.0");
    CHECK(trim(world.ask("coder", "go")) == "1.0.0");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("2.0", link);
    std::filesystem::remove(bin + "/1.0");
    CHECK(trim(world.ask("coder", "go")) == "1.0.0");
    CHECK(version_of("reviewer") == "2.0.0");
    CHECK(trim(world.ask("reviewer", "go")) == "2.0.0");
    // In the middle of an update.
    std::filesystem::remove(link);
    CHECK(world.launch_refused("tester") == "harness-missing");
    CHECK_CONTAINS(world.refusal_message, link + " (PICKY_PROGRAM): No such file or directory");
    std::filesystem::create_symlink("picky", link);
    CHECK(world.launch_refused("tester") == "harness-missing");
    CHECK_CONTAINS(world.refusal_message, "Too many levels of symbolic links");
    std::filesystem::remove(link);
    std::filesystem::create_symlink("2.0", link);
    REQUIRE(::chmod((bin + "/2.0").c_str(), 0644) == 0);
    CHECK(world.launch_refused("tester") == "harness-missing");
    CHECK_CONTAINS(world.refusal_message, "Permission denied");
    CHECK(trim(world.ask("coder", "go")) == "1.0.0");
}

TEST_CASE("proxy and certificate variables that are passed on reach sessions with their file") {
    World world;
    const std::string certificates = world.root + "/corp/ca.pem";
    write_text(certificates, "stand-in certificates");
    world.system.set(
        "sandbox",
        object({{"passEnv", strings({"HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS"})}}));
    StartOptions options;
    options.more_env = {{"HTTPS_PROXY", "http://proxy.example:3128"},
                        {"NO_PROXY", "localhost"},
                        {"NODE_EXTRA_CA_CERTS", certificates}};
    world.start(options);
    world.launch("coder");
    CHECK(trim(world.ask("coder",
                         "echo $HTTPS_PROXY $NO_PROXY; cat \"$NODE_EXTRA_CA_CERTS\"; "
                         "echo x 2>/dev/null >>\"$NODE_EXTRA_CA_CERTS\" || echo ' read-only'")) ==
          "http://proxy.example:3128 localhost\nstand-in certificates read-only");
    CHECK(read_text(certificates) == "stand-in certificates");
    CHECK_MESSAGE(!contains(world.host_log(), "sessions don't get it"), world.host_log());
}
