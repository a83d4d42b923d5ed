// Goal: a broker that dies alone costs nothing that was acknowledged, and running sessions carry
// on. Method: SIGKILL to the host's broker child while messages are being sent and answered.

#include <doctest/doctest.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "e2e/puppet.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// Connects to admin.sock and asks; nothing when the broker died meanwhile.
std::optional<json::Value> try_request(World& world,
                                       std::string_view verb,
                                       const json::Value& args) {
    LineStream admin = LineStream::connect(world.bus_host() + "/admin.sock");
    if (!admin.valid()) {
        return std::nullopt;
    }
    json::Value request = object({{"id", 1}, {"verb", verb}});
    request.set("args", args);
    if (!admin.send(json::dump(request) + "\n")) {
        return std::nullopt;
    }
    const auto line = admin.line();
    if (!line.has_value()) {
        return std::nullopt;
    }
    return *json::parse(*line, {.depth_max = 16});
}

struct Pair {
    UniqueFd ours;
    UniqueFd theirs;
};

Pair make_pair() {
    std::array<int, 2> ends{-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// At no name: nobody will ever connect.
UniqueFd make_listener() {
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(::bind(listener.get(),
                   reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address.sun_family)) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    return listener;
}

std::string program_of(pid_t pid) {
    std::array<char, PATH_MAX> path{};
    const std::string link = "/proc/" + std::to_string(pid) + "/exe";
    const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
    REQUIRE(length > 0);
    return {path.data(), static_cast<size_t>(length)};
}

// Binds the run in the world's store by a broker of the test's own and kills it: as if the host's
// broker had committed it and answered that it couldn't.
void bind_behind_the_host(const World& world, const std::string& program, const std::string& run) {
    const Pair control = make_pair();
    const UniqueFd bus = make_listener();
    const UniqueFd admin = make_listener();
    const int out = ::dup(STDERR_FILENO);
    Child broker = Child::start(
        {program,
         "--store",
         world.bus_host() + "/broker.sqlite",
         "--control-fd",
         std::to_string(control.theirs.get()),
         "--bus-fd",
         std::to_string(bus.get()),
         "--admin-fd",
         std::to_string(admin.get())},
        world.environment(),
        {.out = out, .err = out, .extra = {control.theirs.get(), bus.get(), admin.get()}});
    ::close(out);
    LineStream host{UniqueFd(::dup(control.ours.get()))};
    const auto must = [&](std::string_view verb, const json::Value& args) {
        const json::Value reply = host.request(verb, args);
        REQUIRE_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
    };
    must("config",
         object({{"business", "acme"},
                 {"human", "jordan"},
                 {"roles", json::Array{}},
                 {"launchBy", json::Value()},
                 {"launchInstances", json::Array{}},
                 {"modules", strings({"script"})}}));
    must("bindLaunch",
         object({{"instance", "coder"},
                 {"run", run},
                 {"harness", "script"},
                 {"provider", kProvider},
                 {"model", kModel},
                 {"launchedBy", "jordan"},
                 {"transcript", "/nowhere"},
                 {"pid", 4'194'302},
                 {"startTime", "1"},
                 {"runnerPid", 4'194'303},
                 {"runnerStartTime", "1"}}));
    broker.signal(SIGKILL);
    REQUIRE(broker.wait().has_value());
}

}  // namespace

TEST_CASE("a killed broker is replaced and running sessions carry on") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    CHECK(trim(world.ask("coder", "echo before")) == "before");
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    CHECK(trim(world.ask("coder", "echo after")) == "after");
    const auto rows = world.ps();
    REQUIRE(rows.size() == 1);
    CHECK(text(rows[0], "run") == run);
    CHECK(*rows[0].find("live") == json::Value(true));
    CHECK(world.broker_pid() != broker);
    // Launching and ending work as before.
    world.launch("reviewer");
    world.stop_run(run);
    CHECK(text(world.wait_log("end", run), "reason") == "stopped");
}

TEST_CASE("a broker killed under load loses no acknowledged message") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    std::vector<int> acknowledged;
    int next = 0;
    for (int round = 0; round < 5; ++round) {
        // Thirty messages in flight; the broker dies among them.
        // A first reply says that this broker is up.
        LineStream admin = world.admin();
        REQUIRE(*admin.request("sessions", json::Object{}).find("ok") == json::Value(true));
        const pid_t broker = world.broker_pid();
        REQUIRE(broker > 0);
        std::string all;
        std::vector<int> sent;
        for (int i = 0; i < 30; ++i) {
            sent.push_back(next);
            all += R"({"id":)" + std::to_string(i + 1) +
                   R"(,"verb":"message.send","args":{"to":"coder","class":"NOTE","body":"echo )" +
                   std::to_string(next) + " >> got\"}}\n";
            ++next;
        }
        admin.send(all);
        // Some of the replies come, then the kill.
        int seen = 0;
        while (seen < 1 + round * 7) {
            const auto line = admin.line();
            if (!line.has_value()) {
                break;
            }
            ++seen;
            const auto reply = json::parse(*line, {.depth_max = 16});
            if (reply && *reply->find("ok") == json::Value(true)) {
                acknowledged.push_back(sent[static_cast<size_t>(number(*reply, "id") - 1)]);
            }
        }
        ::kill(broker, SIGKILL);
        REQUIRE(wait_gone(broker));
        // What else was acknowledged before the end.
        while (const auto line = admin.line()) {
            const auto reply = json::parse(*line, {.depth_max = 16});
            if (reply && *reply->find("ok") == json::Value(true)) {
                acknowledged.push_back(sent[static_cast<size_t>(number(*reply, "id") - 1)]);
            }
        }
    }
    CHECK(acknowledged.size() >= 5);
    const auto delivered = [&] {
        std::istringstream lines(read_text(world.workspace("coder") + "/got"));
        std::vector<int> values;
        for (int value = 0; lines >> value;) {
            values.push_back(value);
        }
        return values;
    };
    CHECK(wait_for_change({world.workspace("coder")}, [&] {
        const auto values = delivered();
        const std::set<int> got(values.begin(), values.end());
        for (const int wanted : acknowledged) {
            if (!got.contains(wanted)) {
                return false;
            }
        }
        return true;
    }));
    // At least once, and in order: the first time that each is seen.
    std::set<int> seen;
    int last = -1;
    for (const int value : delivered()) {
        if (seen.insert(value).second) {
            CHECK(value > last);
            last = value;
        }
    }
    CHECK(text(world.ps().at(0), "run") == run);
}

TEST_CASE("events go on without a gap after the broker was killed") {
    World world;
    world.start();
    world.launch("coder");
    const auto before = world.events();
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    CHECK(trim(world.ask("coder", "echo x")) == "x");
    const auto after = world.events();
    REQUIRE(after.size() > before.size());
    for (size_t i = 0; i < after.size(); ++i) {
        CHECK(number(after[i], "seq") == static_cast<int64_t>(i + 1));
    }
    for (size_t i = 0; i < before.size(); ++i) {
        CHECK(json::dump(before[i]) == json::dump(after[i]));
    }
}

TEST_CASE("a broker killed during a launch fails or finishes it and holds nothing") {
    World world(World::Runner::puppet);
    world.start();
    const PuppetMaster master(world, "coder");
    LineStream admin = world.admin();
    admin.ask("launch", object({{"instance", "coder"}}));
    Puppet puppet = master.accept();
    const std::string capability = puppet.capability();
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    // The runner claims at the next broker: the run was bound and its capability stands.
    LineStream bus;
    std::optional<json::Value> claimed;
    for (int attempt = 0; attempt < 200 && !claimed; ++attempt) {
        bus = puppet.connect(world.bus_host() + "/bus.sock");
        if (bus.valid() && bus.send(R"({"id":1,"verb":"role.claim","cap":")" + capability +
                                    R"(","args":{"run":")" + puppet.run() + "\"}}\n")) {
            if (const auto line = bus.line()) {
                claimed = *json::parse(*line);
            }
        }
    }
    REQUIRE(claimed.has_value());
    CHECK_MESSAGE(*claimed->find("ok") == json::Value(true), json::dump(*claimed));
    world.wait_log("launch", puppet.run());
    std::optional<json::Value> sessions;
    while (!sessions) {
        sessions = try_request(world, "sessions", json::Object{});
    }
    CHECK(sessions->find("result")->find("sessions")->array()->size() == 1);
    puppet.exit(0);
    CHECK(text(world.wait_log("end", puppet.run()), "reason") == "stopped");
}

TEST_CASE("a run that only the next broker finds bound is ended and its seat can be launched") {
    World world;
    world.start();
    const std::string other = text(world.launch("reviewer"), "run");
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    const std::string program = program_of(broker);
    const std::string run = "r00000000beef";
    // The host sees its broker's end only when the store holds what nobody told it.
    world.host().signal(SIGSTOP);
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    bind_behind_the_host(world, program, run);
    world.host().signal(SIGCONT);
    // Answered by the next broker, after the host has told it what to end.
    CHECK(trim(world.ask("reviewer", "echo alive")) == "alive");
    world.launch("coder");
    size_t ends = 0;
    for (const json::Value& event : world.events()) {
        const bool ended = text(event, "type") == "session.ended";
        CHECK((!ended || text(event, "run") != other));
        ends += ended && text(event, "run") == run ? 1U : 0U;
    }
    CHECK(ends == 1);
    CHECK_CONTAINS(world.host_log(), "run " + run + " (coder) is bound at the broker after all");
    // It was never a session to the launch log.
    for (const json::Value& end : world.log("end")) {
        CHECK(text(end, "run") != run);
    }
}

TEST_CASE("the broker dies with its host") {
    World world;
    world.start();
    const pid_t broker = world.broker_pid();
    REQUIRE(broker > 0);
    world.kill();
    CHECK(wait_gone(broker));
}
