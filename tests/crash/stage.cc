#include "crash/stage.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

using namespace mosaic::e2e;

namespace mosaic::crash {
namespace {

const std::vector<std::string>& seats() {
    static const std::vector<std::string> all = {"pm", "coder", "reviewer", "tester"};
    return all;
}

// The entry as it was before anybody launched the run.
json::Value as_warm(const json::Value& entry) {
    json::Value out;
    for (const json::Member& member : *entry.object()) {
        if (member.first != "launchedBy" && member.first != "at") {
            out.set(member.first, member.second);
        }
    }
    out.set("warm", true);
    return out;
}

}  // namespace

std::string crash_prefix() {
    const char* given = std::getenv("MOSAIC_CRASH_PREFIX");
    return given != nullptr && *given != '\0' ? given
                                              : std::string(MOSAIC_BUILD_DIR) + "/e2e/prefix-crash";
}

Stage::Stage() : ledger_(world_), product_(world_.prefix()), directory_(world_.root + "/crash") {
    std::filesystem::create_directories(directory_);
    set_up_roles(world_);
}

bool Stage::play(const Armed& armed) {
    const std::string file = directory_ + "/armed";
    ::unlink((directory_ + "/passed").c_str());
    if (!armed.point.empty()) {
        write_text(file, armed.point + " " + std::to_string(armed.hit) + "\n");
    }
    world_.set_prefix(crash_prefix());
    set_warm_seats(world_, 1);
    StartOptions options;
    options.more_env["MOSAIC_CRASH"] = directory_;
    if (world_.try_start(options)) {
        Play(world_, ledger_).all();
    }
    const auto exit = world_.host().wait();
    REQUIRE_MESSAGE(exit.has_value(), "the host should be dead; its log:\n" << world_.host_log());
    const bool hit = !armed.point.empty() && !exists(file);
    ::unlink(file.c_str());
    if (hit && !armed.point.starts_with("broker.")) {
        CHECK(exit->signal == SIGKILL);
    } else {
        CHECK_MESSAGE(exit->code == 0,
                      "it ended with " << exit->code << ", signal " << exit->signal);
    }
    return hit;
}

std::vector<std::string> Stage::passed() const {
    std::istringstream lines(read_text(directory_ + "/passed"));
    std::vector<std::string> points;
    for (std::string line; std::getline(lines, line);) {
        points.push_back(line);
    }
    return points;
}

void Stage::start_product() {
    world_.set_prefix(product_);
    set_warm_seats(world_, 0);
    world_.start();
}

void Stage::check_and_leave_leftovers() {
    start_product();
    ledger_.check_recovered();
    Play play(world_, ledger_);
    play.launch(seats());
    for (const std::string& seat : seats()) {
        CHECK_MESSAGE(world_.session_of(seat).has_value(), seat << " should be running");
    }
    // What a replacement of sessions.json left that a host died in, the next one clears away.
    CHECK(wait_for_change({world_.bus_host()},
                          [&] { return !exists(world_.bus_host() + "/sessions.json.tmp"); }));
    play.note();
    ledger_.check_messages();
    const auto ended = world_.session_of("tester");
    const auto unnamed = world_.session_of("coder");
    REQUIRE(ended.has_value());
    REQUIRE(unnamed.has_value());
    play.request("stop", object({{"target", "tester"}}));
    world_.wait_log("end", text(*ended, "run"));
    set_warm_seats(world_, 1);
    play.request("reload", json::Object{});
    CHECK(wait_for_change({world_.bus_host()}, [&] { return has_warm_seat(world_); }));
    world_.kill();
    doctor_sessions(text(*unnamed, "run"), *ended);
}

// What a host leaves that dies between the bind of one run and its entry, between the end of
// another and its removal, and before the entry of a warm seat that was taken is changed.
void Stage::doctor_sessions(const std::string& unnamed, const json::Value& ended) {
    const std::string path = world_.bus_host() + "/sessions.json";
    json::Value file = *json::parse(read_text(path), {.depth_max = 16});
    json::Array& entries = *file.find("sessions")->array();
    std::erase_if(entries, [&](const json::Value& entry) {
        return text(entry, "run") == unnamed || text(entry, "instance") == text(ended, "instance");
    });
    entries.push_back(ended);
    for (json::Value& entry : entries) {
        if (text(entry, "instance") == "reviewer") {
            entry = as_warm(entry);
        }
    }
    write_text(path, json::dump(file), 0600);
}

}  // namespace mosaic::crash
