#include "crash/play.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

using namespace mosaic::e2e;

namespace mosaic::crash {
namespace {

constexpr const char* kRunner = "/run/mosaic/mosaic-runner";
constexpr int kStepMs = 60'000;

constexpr std::string_view kStoreComplaint = "sessions.json can't be written";

size_t count_in(const std::string& text, std::string_view what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++found;
    }
    return found;
}

bool is_ok(const std::optional<json::Value>& reply) {
    return reply && *reply->find("ok") == json::Value(true);
}

std::string tool(const std::string& name, const std::string& arguments) {
    return std::string(kRunner) + " tool " + name + " '" + arguments + "'";
}

bool is_warm(const json::Value& entry) {
    const json::Value* warm = entry.find("warm");
    return warm != nullptr && *warm == json::Value(true);
}

// Waits this long for the process to die; true when it has.
bool dies_within(const Child& child, int timeout_ms) {
    pollfd poll{.fd = child.pidfd(), .events = POLLIN, .revents = 0};
    return ::poll(&poll, 1, timeout_ms) > 0;
}

}  // namespace

bool has_warm_seat(const World& world) {
    const auto entries = world.sessions();
    return std::any_of(entries.begin(), entries.end(), is_warm);
}

void set_warm_seats(World& world, int64_t number) {
    world.role("reviewer").set("warm", number);
    world.write_config();
}

void set_up_roles(World& world) {
    world.set_var("pm",
                  "limits.typed",
                  strings({"launch",
                           "message_send",
                           "task_create",
                           "task_list",
                           "task_update",
                           "decision_request"}));
    world.role("pm")
        .find("authority")
        ->set("withinRole",
              strings({"message.send",
                       "role.launch",
                       "task.create",
                       "task.list",
                       "task.update",
                       "decision.request"}));
    world.system.set("limits", object({{"runsKept", 1'000'000}}));
}

bool Play::gone() const {
    return dies_within(world_.host(), 0);
}

template <class Done>
bool Play::wait_for(const char* what, Done done) {
    const int64_t deadline = now_ms() + kStepMs;
    while (!done()) {
        if (dies_within(world_.host(), 5)) {
            return false;
        }
        REQUIRE_MESSAGE(now_ms() < deadline, "waited in vain for " << what);
    }
    return !gone();
}

std::optional<json::Value> Play::request_once(std::string_view verb, const json::Value& args) {
    LineStream admin = LineStream::connect(world_.bus_host() + "/admin.sock");
    if (!admin.valid()) {
        return std::nullopt;
    }
    admin.ask(verb, args);
    const auto line = admin.line(kStepMs);
    if (!line) {
        return std::nullopt;
    }
    const auto reply = json::parse(*line, {.depth_max = 16});
    REQUIRE_MESSAGE(reply.has_value(), "not JSON: " << *line);
    return *reply;
}

std::optional<json::Value> Play::request(std::string_view verb, const json::Value& args) {
    std::optional<json::Value> reply;
    wait_for("an answer", [&] {
        reply = request_once(verb, args);
        return reply.has_value();
    });
    return reply;
}

bool Play::is_live(std::string_view seat) {
    const auto reply = request("sessions", json::Object{});
    if (!is_ok(reply)) {
        return false;
    }
    const json::Array& list = *reply->find("result")->find("sessions")->array();
    return std::any_of(list.begin(), list.end(), [&](const json::Value& one) {
        return text(one, "instance") == seat && *one.find("claimed") == json::Value(true);
    });
}

void Play::launch(const std::vector<std::string>& seats) {
    // All at once first; what the death of a broker interrupted is asked again one by one.
    std::vector<LineStream> streams;
    for (const std::string& seat : seats) {
        streams.push_back(LineStream::connect(world_.bus_host() + "/admin.sock"));
        if (streams.back().valid()) {
            streams.back().ask("launch", object({{"instance", seat}}));
        }
    }
    for (size_t i = 0; i < seats.size(); ++i) {
        std::optional<json::Value> reply;
        if (streams[i].valid()) {
            if (const auto line = streams[i].line(kStepMs)) {
                reply = *json::parse(*line, {.depth_max = 16});
            }
        }
        wait_for("a launch", [&] {
            if (is_ok(reply)) {
                ledger_.granted(text(*reply->find("result"), "run"));
                return true;
            }
            // An earlier try may have come through unseen.
            const bool taken = reply && text(*reply, "error") == "instance-running";
            if (taken && is_live(seats[i])) {
                return true;
            }
            reply = request_once("launch", object({{"instance", seats[i]}}));
            return is_ok(reply) ? (ledger_.granted(text(*reply->find("result"), "run")), true)
                                : false;
        });
    }
}

void Play::note() {
    const int number = ledger_.next();
    const auto reply = request(
        "message.send",
        object({{"to", "coder"}, {"class", "NOTE"}, {"body", Ledger::number_script(number)}}));
    if (is_ok(reply)) {
        ledger_.acknowledged(number);
    }
}

// A message to the seat, waited for by a file that its script makes in the end. A message that
// wasn't acked comes again, to a later session in another scene: there its script does nothing.
void Play::run_script(std::string_view seat, const std::string& script) {
    const std::string number = std::to_string(ledger_.next());
    const std::string wanted = world_.workspace(seat) + "/wanted." + number;
    const std::string ran = world_.workspace(seat) + "/ran." + number;
    write_text(wanted, "");
    request("message.send",
            object({{"to", std::string(seat)},
                    {"class", "NOTE"},
                    {"body",
                     "[ -e wanted." + number + " ] || exit 0\n" + script + "\n: >ran." + number}}));
    wait_for("a script's end", [&] { return exists(ran); });
    ::unlink(wanted.c_str());
}

void Play::converse() {
    const int number = ledger_.next();
    const auto sent = request("message.send",
                              object({{"to", "coder"},
                                      {"class", "REQUEST"},
                                      {"body", Ledger::number_script(number) + "; echo yes"}}));
    if (!is_ok(sent)) {
        return;
    }
    ledger_.acknowledged(number);
    const auto answer =
        request("message.receive",
                object({{"wait", true}, {"in_reply_to", text(*sent->find("result"), "id")}}));
    if (is_ok(answer)) {
        CHECK(trim(text(*answer->find("result")->find("message"), "body")) == "yes");
    }
}

void Play::launches_by_a_session() {
    request("launches.revoke", json::Object{});
    // At least one of these tools meets a dead broker when that is what is tested: each may fail.
    run_script("pm",
               tool("task_create", R"({"title":"a"})") + " >task; " +
                   tool("task_update",
                        R"({"id":"'$(sed "s/.*:.\(t[0-9]*\).*/\1/" task)'","state":"done"})") +
                   "; " + tool("task_list", "{}") + "; " +
                   tool("decision_request", R"({"question":"q"})") + " >decision; " +
                   tool("message_send", R"({"to":"reviewer","body":"true"})") + "; " +
                   tool("launch", R"({"instance":"tester"})") + " >refused");
    if (gone()) {
        return;
    }
    request("launches.allow", json::Object{});
    const auto asked = json::parse(trim(read_text(world_.workspace("pm") + "/decision")));
    if (asked && asked->find("id") != nullptr) {
        request("decide", object({{"id", text(*asked, "id")}, {"allow", true}}));
    }
    run_script("pm", tool("launch", R"({"instance":"tester"})") + " >launched");
    launch({"tester"});
}

// One whose directory can't be made, and one whose entry can't be written.
void Play::launches_that_fail() {
    const std::string runs = world_.data + "/launches/acme";
    const std::string in_the_way = world_.bus_host() + "/sessions.json.tmp";
    const json::Value coder = object({{"instance", "coder"}});
    std::filesystem::rename(runs, runs + ".aside");
    request_once("launch", coder);
    std::filesystem::rename(runs + ".aside", runs);
    // The store writes at its own pace: it must have nothing under way.
    wait_for("a store at rest", [&] { return ::mkdir(in_the_way.c_str(), 0700) == 0; });
    // It is answered when its entry is gone for good, so the way is cleared before.
    const size_t complaints = count_in(world_.host_log(), kStoreComplaint);
    LineStream admin = LineStream::connect(world_.bus_host() + "/admin.sock");
    if (admin.valid()) {
        admin.ask("launch", coder);
        wait_for("a store that can't be written", [&] {
            return count_in(world_.host_log(), kStoreComplaint) > complaints || !admin.quiet(0);
        });
    }
    ::rmdir(in_the_way.c_str());
    if (admin.valid()) {
        admin.line(kStepMs);
    }
}

void Play::ends() {
    request("stop", object({{"target", "coder"}, {"timeoutMs", 10'000}}));
    request("stop", object({{"target", "tester"}, {"timeoutMs", 0}}));
    if (gone()) {
        return;
    }
    // Its session and the seat that is warm behind it.
    std::set<std::string> killed;
    for (const json::Value& entry : world_.sessions()) {
        if (text(entry, "instance") == "reviewer") {
            killed.insert(text(entry, "run"));
            ::kill(runner_pid(entry), SIGKILL);
        }
    }
    wait_for("the end of a session that died", [&] {
        const auto entries = world_.sessions();
        return std::none_of(entries.begin(), entries.end(), [&](const json::Value& entry) {
            return killed.contains(text(entry, "run"));
        });
    });
}

void Play::all() {
    using Scene = void (Play::*)();
    constexpr std::array<Scene, 7> kScenes = {&Play::look_around,
                                              &Play::begins,
                                              &Play::launches_by_a_session,
                                              &Play::converse,
                                              &Play::ends,
                                              &Play::launches_that_fail,
                                              &Play::begins_again};
    for (const Scene scene : kScenes) {
        if (gone()) {
            return;
        }
        (this->*scene)();
    }
    stop_host();
}

void Play::look_around() {
    // The reviewer's launch is to take a seat that is warm.
    wait_for("a warm seat", [&] { return has_warm_seat(world_); });
    request("routes", json::Object{});
    request("reload", json::Object{});
    request("metrics", json::Object{});
    request("decisions", json::Object{});
    request("events", object({{"since", 0}, {"follow", false}}));
    request("task.list", json::Object{});
}

// One message waits for its receiver, one finds it there.
void Play::begins() {
    note();
    launch({"pm", "coder", "reviewer"});
    note();
}

void Play::begins_again() {
    launch({"coder"});
    note();
}

void Play::stop_host() {
    world_.host().signal(SIGTERM);
    REQUIRE_MESSAGE(dies_within(world_.host(), kStepMs),
                    "the host should end; its log:\n"
                        << world_.host_log());
}

}  // namespace mosaic::crash
