// Goal: the file is opened only when it is ours and whole, and what was committed is there again.

#include "broker/store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"
#include "bench.h"
#include "broker/schema.h"
#include "synced.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

namespace {

std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << bytes;
}

void sql(const std::string& path, const std::string& script) {
    Database db;
    const UniqueFd made(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    REQUIRE(db.open(path));
    REQUIRE(db.script(script));
}

Error refused(const std::string& path) {
    Store store;
    const auto opened = store.open(path);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().text.find(path) != std::string::npos);
    return opened.error();
}

}  // namespace

TEST_CASE("a new store has mode 0600 whatever the umask, and so have its companions") {
    Scratch scratch;
    const mode_t before = umask(0);
    Store store;
    REQUIRE(store.open(scratch.store()));
    REQUIRE(store.add_switch({false, 5}, "jordan"));
    umask(before);
    for (const char* suffix : {"", "-wal", "-shm"}) {
        struct stat facts {};

        REQUIRE(stat((scratch.store() + suffix).c_str(), &facts) == 0);
        CHECK((facts.st_mode & 07777) == 0600);
    }
}

TEST_CASE("what was committed is there after opening again, what was rolled back isn't") {
    Scratch scratch;
    {
        Store store;
        REQUIRE(store.open(scratch.store()));
        REQUIRE(store.begin());
        REQUIRE(store.add_event("one", json::Object{{"x", 1}}, 0));
        REQUIRE(store.commit());
        REQUIRE(store.begin());
        REQUIRE(store.add_event("lost", json::Object{}, 0));
        store.rollback();
        REQUIRE(store.begin());
        REQUIRE(store.add_event("two", json::Object{}, 0));
        REQUIRE(store.commit());
    }
    Store store;
    REQUIRE(store.open(scratch.store()));
    const auto events = store.events(0, 10);
    REQUIRE(events);
    CHECK(*events == std::vector<std::string>{
                         R"({"seq":1,"at":"1970-01-01T00:00:00.000Z","type":"one","x":1})",
                         R"({"seq":2,"at":"1970-01-01T00:00:00.000Z","type":"two"})"});
}

TEST_CASE("reading changes no row, writing does") {
    Scratch scratch;
    Store store;
    REQUIRE(store.open(scratch.store()));
    const int64_t before = store.rows_written();
    REQUIRE(store.live_runs());
    REQUIRE(store.events(0, 1));
    CHECK(store.rows_written() == before);
    REQUIRE(store.add_switch({true, 1}, "jordan"));
    CHECK(store.rows_written() != before);
}

TEST_CASE("a body keeps every byte, NUL included") {
    Scratch scratch;
    Store store;
    REQUIRE(store.open(scratch.store()));
    StoredMessage message;
    message.to = {"coder", ""};
    message.body = std::string("a\0b", 3);
    REQUIRE(store.add_message(message));
    CHECK((*store.front({"coder", ""}))->body == message.body);
}

TEST_CASE("a damaged file is refused with cause and remedy and stays as it is") {
    Scratch scratch;
    {
        Store store;
        REQUIRE(store.open(scratch.store()));
        for (int i = 0; i < 200; ++i) {
            REQUIRE(store.add_event("filler", json::Object{{"x", std::string(500, 'x')}}, 0));
        }
    }
    std::string bytes = bytes_of(scratch.store());
    SUBCASE("a page in the middle") {
        bytes.replace(8192, 4096, std::string(4096, '\x55'));
    }
    SUBCASE("cut short") {
        bytes.resize(bytes.size() / 2);
    }
    SUBCASE("the header") {
        bytes.replace(0, 16, "not a database!!");
    }
    write_bytes(scratch.store(), bytes);
    const Error error = refused(scratch.store());
    CHECK(error.code == Code::corrupt);
    CHECK(error.text.find("damaged") != std::string::npos);
    CHECK(error.text.find("restore it from a backup") != std::string::npos);
    CHECK(bytes_of(scratch.store()) == bytes);
}

TEST_CASE("another program's file and a newer version are refused and stay as they are") {
    Scratch scratch;
    SUBCASE("foreign") {
        sql(scratch.store(), "CREATE TABLE notes (x); PRAGMA user_version=1;");
        const std::string bytes = bytes_of(scratch.store());
        CHECK(refused(scratch.store()).text.find("another program") != std::string::npos);
        CHECK(bytes_of(scratch.store()) == bytes);
    }
    SUBCASE("newer") {
        {
            Store store;
            REQUIRE(store.open(scratch.store()));
        }
        sql(scratch.store(), "PRAGMA user_version=" + std::to_string(kSchemaVersion + 1) + ";");
        const std::string bytes = bytes_of(scratch.store());
        CHECK(refused(scratch.store()).text.find("newer") != std::string::npos);
        CHECK(bytes_of(scratch.store()) == bytes);
    }
}

TEST_CASE("a store of an earlier version gets what is new and keeps what it has") {
    Scratch scratch;
    int earlier = 0;
    SUBCASE("the first") {
        earlier = 1;
    }
    SUBCASE("the second") {
        earlier = 2;
    }
    std::string tables;
    for (int i = 0; i < earlier; ++i) {
        tables += kSteps[static_cast<size_t>(i)];
    }
    sql(scratch.store(),
        tables + "PRAGMA application_id=" + std::to_string(kApplicationId) +
            "; PRAGMA user_version=" + std::to_string(earlier) +
            ";"
            "INSERT INTO messages VALUES (1, 'pm', '', 'coder', '', 'r0123456789ab', 0, 'hello', 5,"
            " 0, 1, NULL);"
            "INSERT INTO events VALUES (1, 0, 'one', '{\"seq\":1}');"
            "INSERT INTO decisions VALUES (3, 'pm', '', 'message.send', '{}', 0, 5, NULL);");
    for (int i = 0; i < 2; ++i) {
        Store store;
        const auto opened = store.open(scratch.store());
        REQUIRE_MESSAGE(opened.has_value(), opened.error().text);
        CHECK(store.events(0, 10) == std::vector<std::string>{"{\"seq\":1}"});
        CHECK((*store.find_decision(3))->verb == "message.send");
        CHECK((*store.front({"pm", ""}))->body == "hello");
        CHECK((*store.find_message(1))->key.empty());
        StoredTask task;
        task.role = "pm";
        task.title = "title";
        REQUIRE(store.add_task(task) == i + 1);
        CHECK(*store.count_unfinished_tasks_of("pm") == i + 1);
    }
    // The same tables as of a new file.
    Scratch fresh;
    {
        Store store;
        REQUIRE(store.open(fresh.store()));
    }
    const auto schema = [](const std::string& path) {
        Database db;
        REQUIRE(db.open(path));
        std::string out;
        REQUIRE(db.each("SELECT sql FROM sqlite_schema ORDER BY name",
                        [&](const Row& row) { out += row.text(0) + "\n"; }));
        REQUIRE(db.each("PRAGMA user_version", [&](const Row& row) { out += row.text(0); }));
        return out;
    };
    CHECK(schema(scratch.store()) == schema(fresh.store()));
    CHECK(schema(fresh.store()).ends_with("\n" + std::to_string(kSchemaVersion)));
}

TEST_CASE("an empty file, as an interrupted first start leaves it, is made a store") {
    Scratch scratch;
    write_bytes(scratch.store(), "");
    Store store;
    REQUIRE(store.open(scratch.store()));
    CHECK(store.add_switch({true, 1}, "jordan"));
}

TEST_CASE("links, FIFOs and directories are no store") {
    Scratch scratch;
    SUBCASE("link") {
        write_bytes(scratch.path() + "/elsewhere", "");
        REQUIRE(symlink("elsewhere", scratch.store().c_str()) == 0);
    }
    SUBCASE("fifo") {
        REQUIRE(mkfifo(scratch.store().c_str(), 0600) == 0);
    }
    SUBCASE("directory") {
        REQUIRE(mkdir(scratch.store().c_str(), 0700) == 0);
    }
    static_cast<void>(refused(scratch.store()));
}

TEST_CASE("the database itself keeps a seat to one live run and one holder") {
    Scratch scratch;
    Store store;
    REQUIRE(store.open(scratch.store()));
    Run run;
    run.run = kCoderRun;
    run.seat = {"coder", ""};
    run.process = {1, "1", 2, "2"};
    REQUIRE(store.add_run(run));
    Run second = run;
    second.run = kPmRun;
    second.process = {3, "3", 4, "4"};
    CHECK_FALSE(store.add_run(second));
    REQUIRE(store.claim(run, 1));
    CHECK_FALSE(store.claim(second, 1));
}

TEST_CASE("a new store's name is on the disk when it is open") {
    const Scratch scratch;
    mosaic::test::synced().clear();
    Store store;
    REQUIRE(store.open(scratch.store()));
    CHECK(mosaic::test::was_synced(std::filesystem::canonical(scratch.path())));
}
