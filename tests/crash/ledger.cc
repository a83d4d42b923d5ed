#include "crash/ledger.h"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <sstream>
#include <utility>

using namespace mosaic::e2e;

namespace mosaic::crash {
namespace {

// One number from the broker's store, read beside the broker.
int64_t count(const std::string& store, const char* sql) {
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open_v2(store.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
    sqlite3_busy_timeout(db, kWaitMs);
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) == SQLITE_OK);
    REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
    const int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

bool names_a_run(const std::string& text, const std::string& runs) {
    return contains(text, runs + "/r");
}

}  // namespace

std::string Ledger::number_script(int number) {
    return "echo " + std::to_string(number) + " >>got";
}

void Ledger::read_events() {
    LineStream admin = world_.admin();
    while (true) {
        const json::Value reply =
            admin.request("events", object({{"since", seen_}, {"follow", false}}));
        REQUIRE_MESSAGE(*reply.find("ok") == json::Value(true), json::dump(reply));
        const json::Array& page = *reply.find("result")->find("events")->array();
        if (page.empty()) {
            return;
        }
        for (const json::Value& event : page) {
            CHECK(number(event, "seq") == ++seen_);
            const std::string type = text(event, "type");
            if (type == "session.bound") {
                ++runs_[text(event, "run")].bound;
            } else if (type == "session.ended") {
                ++runs_[text(event, "run")].ended;
            }
        }
    }
}

void Ledger::check_processes() {
    const std::string runs = world_.data + "/launches/acme";
    for (const pid_t pid : world_.processes()) {
        const std::string proc = "/proc/" + std::to_string(pid);
        std::string line = read_text(proc + "/cmdline");
        const bool old = names_a_run(line, runs) || names_a_run(read_text(proc + "/environ"), runs);
        std::replace(line.begin(), line.end(), '\0', ' ');
        CHECK_MESSAGE(!old, "a process of an old session is alive: " << pid << " " << line);
    }
}

void Ledger::check_log() {
    std::map<std::string, int> launches;
    std::map<std::string, int> ends;
    const auto read = [&] {
        launches.clear();
        ends.clear();
        for (const json::Value& line : world_.log()) {
            const std::string event = text(line, "event");
            if (event == "launch") {
                ++launches[text(line, "run")];
            } else if (event == "end") {
                ++ends[text(line, "run")];
            }
        }
        return std::all_of(runs_.begin(), runs_.end(), [&](const auto& run) {
            return run.second.told || ends.contains(run.first);
        });
    };
    wait_for_change({world_.data + "/launches"}, read, 5'000);
    for (auto& [run, records] : runs_) {
        if (std::exchange(records.told, true)) {
            continue;
        }
        CHECK_MESSAGE(ends[run] == 1, run << " has " << ends[run] << " end lines");
        CHECK_MESSAGE(launches[run] <= 1, run << " has " << launches[run] << " launch lines");
    }
    for (const auto& [run, lines] : ends) {
        CHECK_MESSAGE(runs_.contains(run), run << " has an end line and is unknown to the broker");
    }
}

void Ledger::check_directories() {
    const std::string runs = world_.data + "/launches/acme";
    const bool clean = wait_for_change({runs}, [&] {
        const auto names = names_in(runs);
        return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
            return runs_.contains(name);
        });
    });
    CHECK_MESSAGE(clean, "a directory of a run that never came to be is left");
    for (const auto& [run, records] : runs_) {
        CHECK_MESSAGE(exists(world_.run_directory(run)), run << " has lost its directory");
    }
}

void Ledger::check_capabilities() {
    const std::string store = world_.bus_host() + "/broker.sqlite";
    CHECK(count(store, "SELECT count(*) FROM runs WHERE cap_hash <> ''") == 0);
    CHECK(count(store, "SELECT count(*) FROM seats") == 0);
}

void Ledger::check_recovered() {
    check_processes();
    CHECK(world_.sessions().empty());
    check_capabilities();
    read_events();
    for (const auto& [run, records] : runs_) {
        CHECK_MESSAGE(records.bound <= 1, run << " was bound " << records.bound << " times");
        CHECK_MESSAGE(records.ended == 1, run << " has " << records.ended << " ends");
    }
    for (const std::string& run : granted_) {
        CHECK_MESSAGE(runs_.contains(run), run << " was granted and is forgotten");
    }
    check_log();
    check_directories();
}

void Ledger::check_messages() {
    std::vector<int> values;
    const auto carried_out = [&] {
        std::istringstream lines(read_text(world_.workspace("coder") + "/got"));
        values.clear();
        for (int value = 0; lines >> value;) {
            values.push_back(value);
        }
        const std::set<int> got(values.begin(), values.end());
        return std::includes(got.begin(), got.end(), acknowledged_.begin(), acknowledged_.end());
    };
    // Hundreds may wait: what counts is that one comes after the other.
    size_t before = 0;
    const auto one_more = [&] { return carried_out() || values.size() > before; };
    while (!carried_out() && wait_for_change({world_.workspace("coder")}, one_more)) {
        before = values.size();
    }
    CHECK_MESSAGE(carried_out(),
                  "an acknowledged message is gone: " << values.size() << " were carried out, "
                                                      << acknowledged_.size()
                                                      << " were acknowledged");
    // At least once and in order: the first time that each is seen.
    std::set<int> seen;
    int last = -1;
    for (const int value : values) {
        if (seen.insert(value).second) {
            CHECK_MESSAGE(value > last, value << " came after " << last);
            last = value;
        }
    }
}

}  // namespace mosaic::crash
