// Goal: nothing adds up. Method: many launches and ends on one host, then count what is left.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

size_t descriptors_of(pid_t pid) {
    return names_in("/proc/" + std::to_string(pid) + "/fd").size();
}

// A number of /proc/PID/status: KiB, or a count.
long status_of(pid_t pid, const std::string& field) {
    const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
    const size_t at = status.find("\n" + field + ":");
    return at == std::string::npos ? 0 : std::stol(status.substr(at + field.size() + 2));
}

// As many as tools/soak asks for.
int launches_wanted() {
    const char* const wanted = std::getenv("MOSAIC_SOAK_LAUNCHES");
    return wanted != nullptr ? std::max(std::atoi(wanted), 10) : 300;
}

// Memory and threads of host and broker, to compare. Memory first grows into what a busy process
// keeps, so a soak compares with its first tenth.
struct Size {
    long host_kib = 0;
    long broker_kib = 0;
    long host_threads = 0;
    long broker_threads = 0;
};

Size size_of(pid_t host, pid_t broker) {
    return {status_of(host, "VmRSS"),
            status_of(broker, "VmRSS"),
            status_of(host, "Threads"),
            status_of(broker, "Threads")};
}

void print(const std::string& when, int launches, const Size& size) {
    MESSAGE(when << ": " << launches << " launches; host " << size.host_kib << " KiB, "
                 << size.host_threads << " threads; broker " << size.broker_kib << " KiB, "
                 << size.broker_threads << " threads");
}

size_t children_of(pid_t parent) {
    size_t count = 0;
    for (const std::string& name : names_in("/proc")) {
        if (name.find_first_not_of("0123456789") == std::string::npos &&
            contains(read_text("/proc/" + name + "/status"),
                     "PPid:\t" + std::to_string(parent) + "\n")) {
            ++count;
        }
    }
    return count;
}

}  // namespace

TEST_CASE("three hundred launches and ends leave no process or descriptor or zombie") {
    World world;
    // No old run directory is being removed while the host's children are counted.
    world.system.set("limits", object({{"runsKept", 1000}}));
    world.start();
    LineStream admin = world.admin();
    const auto launch_and_end = [&](const std::string& seat, bool kill) {
        json::Value reply = admin.request("launch", object({{"instance", seat}}));
        while (*reply.find("ok") == json::Value(false) &&
               text(reply, "error") == "instance-running") {
            reply = admin.request("launch", object({{"instance", seat}}));
        }
        REQUIRE_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
        const std::string run = text(*reply.find("result"), "run");
        if (kill) {
            ::kill(runner_pid(*world.session(run)), SIGKILL);
        } else {
            const json::Value stopped = admin.request("stop", object({{"target", run}}));
            REQUIRE_MESSAGE(*stopped.find("ok") == json::Value(true), json::dump(stopped));
        }
        // The entry's removal is the last step before the seat is free.
        REQUIRE(
            wait_for_change({world.bus_host()}, [&] { return !world.session(run).has_value(); }));
    };
    launch_and_end("coder", false);
    launch_and_end("reviewer", true);
    REQUIRE(world.wait_sessions(0));
    // What an ended session left is tidied up by a child, which comes and goes.
    const auto only_the_broker_is_left = [&] {
        const int64_t deadline = now_ms() + kWaitMs;
        bool alone = false;
        while (!(alone = children_of(world.host().pid()) == 1) && now_ms() < deadline) {
            ::poll(nullptr, 0, 10);
        }
        return alone;
    };
    REQUIRE(only_the_broker_is_left());
    const size_t host_descriptors = descriptors_of(world.host().pid());
    const pid_t broker = world.broker_pid();
    const size_t broker_descriptors = descriptors_of(broker);
    const std::vector<std::string> seats = {"coder", "reviewer", "tester"};
    const int launches = launches_wanted();
    Size early;
    for (int i = 0; i < launches; ++i) {
        CAPTURE(i);
        launch_and_end(seats[static_cast<size_t>(i) % seats.size()], i % 5 == 0);
        if (i == launches / 10) {
            early = size_of(world.host().pid(), broker);
        }
    }
    REQUIRE(world.wait_sessions(0));
    const Size late = size_of(world.host().pid(), broker);
    print("a tenth", launches / 10, early);
    print("at the end", launches, late);
    // Memory only of a soak, whose product has no sanitizers: they keep what was freed. The broker
    // keeps pages of its store in a cache of SQLite's bound (2 MB).
    if (launches > 300) {
        CHECK(late.host_kib <= early.host_kib + 8 * 1024);
        CHECK(late.broker_kib <= early.broker_kib + 8 * 1024);
    }
    // The ring's own workers come and go, three at most.
    CHECK(late.host_threads <= early.host_threads + 3);
    CHECK(late.broker_threads == 1);
    CHECK(only_the_broker_is_left());
    // An fsync may be under way for a moment longer: a bound, not an equality.
    CHECK(descriptors_of(world.host().pid()) <= host_descriptors + 4);
    CHECK(descriptors_of(broker) <= broker_descriptors + 4);
    const auto lines = static_cast<size_t>(launches) + 2;
    CHECK(world.log("launch").size() == lines);
    CHECK(world.log("end").size() == lines);
    CHECK(world.survivors().empty());
}

TEST_CASE("refused requests leave nothing on disk and no descriptor") {
    World world;
    world.start();
    LineStream admin = world.admin();
    admin.request("launch", object({{"instance", "nobody"}}));
    const size_t before = descriptors_of(world.host().pid());
    for (int i = 0; i < 300; ++i) {
        const json::Value reply = admin.request("launch", object({{"instance", "nobody"}}));
        CHECK(text(reply, "error") == "instance-not-listed");
    }
    CHECK(descriptors_of(world.host().pid()) <= before + 2);
    CHECK(names_in(world.data + "/launches/acme").empty());
    CHECK(world.wait_log_count("refused", 301).size() == 301);
}

TEST_CASE("an idle runner keeps little memory of its own") {
    World world;
    world.start();
    const std::string run = text(world.launch("coder"), "run");
    const pid_t runner = runner_pid(*world.session(run));
    const auto settles_at = [&](long kib) {
        const int64_t deadline = now_ms() + kWaitMs;
        long own = 0;
        do {
            const std::string status = read_text("/proc/" + std::to_string(runner) + "/status");
            const size_t at = status.find("RssAnon:");
            REQUIRE(at != std::string::npos);
            own = std::stol(status.substr(at + 8));
            // The kernel has no event for it.
            ::poll(nullptr, 0, 20);
        } while (own > kib && now_ms() < deadline);
        return own;
    };
    // What a claim's and a turn's deep calls have touched is given back: 68 KiB were measured, and
    // 96 without.
    CHECK(settles_at(76) <= 76);
    CHECK(trim(world.ask("coder", "head -c 60000 /dev/zero | tr '\\0' x | wc -c")) == "60000");
    CHECK(settles_at(88) <= 88);
}
