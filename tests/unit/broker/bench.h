#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "broker/core.h"
#include "broker/store.h"

// A core on a real store in a scratch directory. A REQUIRE here that fails is a broken test.

namespace mosaic::broker::test {

class Scratch {
  public:
    explicit Scratch(const std::string& parent = MOSAIC_BUILD_DIR)
        : path_(parent + "/broker-test-XXXXXX") {
        REQUIRE(mkdtemp(path_.data()) != nullptr);
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string store() const { return path_ + "/broker.sqlite"; }

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline wire::BrokerConfig acme() {
    wire::BrokerConfig out;
    out.business = "acme";
    out.human = "jordan";
    out.roles = {{"pm", {"message.send", "role.launch"}, {}, {}},
                 {"coder", {}, {"message.send"}, {}},
                 {"reviewer", {}, {}, {"message.send", "role.launch"}},
                 {"mute", {}, {}, {}}};
    out.launch_by = "pm";
    out.launch_instances = {"coder", "reviewer", "mute"};
    out.modules = {"script"};
    return out;
}

constexpr const char* kPmRun = "r000000000001";
constexpr const char* kCoderRun = "r000000000002";
constexpr const char* kReviewerRun = "r000000000003";
constexpr const char* kMuteRun = "r000000000004";

inline wire::BindLaunchArgs binding(const Seat& seat, const std::string& run) {
    wire::BindLaunchArgs out;
    out.seat = seat;
    out.run = run;
    out.harness = "script";
    out.provider = "none";
    out.model = "echo";
    out.launched_by = "jordan";
    // Another process for each run.
    const int64_t pid = 1000 + std::stoll(run.substr(1), nullptr, 16);
    out.process = {pid, "7", pid + 100000, "8"};
    return out;
}

inline wire::EndLaunchArgs ending(const Seat& seat, const std::string& run) {
    wire::EndLaunchArgs out;
    out.seat = seat;
    out.run = run;
    out.reason = EndReason::stopped;
    out.exit_code = 0;
    out.process = binding(seat, run).process;
    out.harness = "script";
    return out;
}

class Bench {
  public:
    Bench() {
        REQUIRE(store.open(scratch.store()));
        REQUIRE(host("config", acme().to_value()).reply.ok);
    }

    Outcome ask(Caller& caller, const std::string& verb, json::Value args, std::string cap = "") {
        wire::Request request;
        request.id = 9;
        request.verb = verb;
        request.cap = std::move(cap);
        request.args = std::move(args);
        auto outcome = core.handle(caller, request, ++now);
        REQUIRE(outcome);
        CHECK(outcome->reply.id == (outcome->kind == Outcome::Kind::reply ? 9 : 0));
        return std::move(*outcome);
    }

    Outcome host(const std::string& verb, json::Value args) {
        return ask(host_caller, verb, std::move(args));
    }

    Outcome human(const std::string& verb, json::Value args) {
        return ask(human_caller, verb, std::move(args));
    }

    std::string bind(const Seat& seat, const std::string& run) {
        const Outcome out = host("bindLaunch", binding(seat, run).to_value());
        REQUIRE_MESSAGE(out.reply.ok, out.reply.message);
        return *out.reply.result.find("cap")->string();
    }

    // What a session needs: its own caller and capability.
    struct Session {
        Caller caller;
        std::string cap;
        Seat seat;
    };

    Session bound(const Seat& seat, const std::string& run) {
        Session out;
        out.caller.run = run;
        out.seat = seat;
        out.cap = bind(seat, run);
        return out;
    }

    Session claimed(const Seat& seat, const std::string& run) {
        Session out = bound(seat, run);
        REQUIRE(ask(out, "role.claim", wire::ClaimArgs{run}.to_value()).reply.ok);
        return out;
    }

    Outcome ask(Session& session, const std::string& verb, json::Value args) {
        return ask(session.caller, verb, std::move(args), session.cap);
    }

    std::vector<json::Value> events(const std::string& type) {
        const auto texts = store.events(0, 10'000);
        REQUIRE(texts);
        std::vector<json::Value> out;
        for (const std::string& text : *texts) {
            json::Value event = *json::parse(text);
            if (*event.find("type")->string() == type) {
                out.push_back(std::move(event));
            }
        }
        return out;
    }

    Scratch scratch;
    Store store;
    Core core{store};
    Caller host_caller{Caller::Kind::host, "", 0};
    Caller human_caller{Caller::Kind::human, "", 0};
    int64_t now = 1'700'000'000'000;
};

inline std::string text_of(const json::Value& object, const char* key) {
    const json::Value* value = object.find(key);
    return value != nullptr && value->string() != nullptr ? *value->string() : "(none)";
}

inline wire::MessageSendArgs letter(const Seat& to, const std::string& body) {
    wire::MessageSendArgs out;
    out.to = to;
    out.body = body;
    return out;
}

inline const json::Value kNothing = json::Object{};

}  // namespace mosaic::broker::test
