// Goal: one turn per message, with the documented request, environment and reply, whatever the
// adapter does. Method: the real program with small shell adapters.

#include <sys/syscall.h>

#include <cerrno>

#include "kernel/runner/scene.h"
#include "refused_call.h"
#include "wire/codes.h"

using namespace scene;

TEST_CASE("a turn gets the state and the message, and its output is the reply") {
    Scene s;
    s.session.harness_env = {{"script_command", "x"}};
    s.adapter(
        "printf '%s' \"$MOSAIC_REQUEST\" > req; pwd -P; id=$MOSAIC_MESSAGE_ID\n"
        "echo $id $MOSAIC_MESSAGE_FROM $MOSAIC_MESSAGE_CLASS $MOSAIC_MODEL $MOSAIC_PROVIDER "
        "$MOSAIC_THINKING $script_command\n"
        "echo $MOSAIC_RUN_DIR $MOSAIC_WORKSPACE $MOSAIC_BUNDLE $MOSAIC_SESSION_DIR "
        "$MOSAIC_TURN_MARKER\n"
        "cmp \"$MOSAIC_REQUEST_FILE\" req && ls /proc/self/fd | wc -l; cat");
    s.start();
    auto [broker, receive] = s.claimed();
    const auto reply = s.turn(broker, receive, "do it");
    CHECK(read_text(s.session.workspace + "/req") ==
          "Current state, read at 2026-01-31T12:34:56.789Z:\n"
          "Launches: allowed (never switched).\n"
          "Open tasks: 0.\n"
          "\n"
          "Message m1 from pm, sent 2026-01-31T12:00:00.000Z, class REQUEST:\n"
          "\n"
          "do it");
    const std::string work = std::filesystem::canonical(s.session.workspace);
    // ls has its directory open besides 0, 1 and 2.
    CHECK(reply.body == work + "\nm1 pm REQUEST m-1 p high x\n" + s.run_directory + " " +
                            s.session.workspace + " " + s.run_directory + "/bundle " +
                            s.session.session_dir + " " + s.session.turn_marker + "\n4\n");
    CHECK(read_text(s.run_directory + "/rw/turns/0001.reply") == reply.body);

    struct stat info {};

    REQUIRE(::stat((s.run_directory + "/rw/turns/0001.request").c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
}

TEST_CASE("standard input is the body when the module says so") {
    Scene s;
    s.session.turn_input = wire::TurnInput::body;
    s.session.limits.reply_bytes = 200'000;
    s.adapter("cat");
    s.start();
    auto [broker, receive] = s.claimed();
    const std::string body(150'000, 'x');
    CHECK(s.turn(broker, receive, body).body == body);
}

TEST_CASE("an adapter that never reads its input hangs nothing") {
    Scene s;
    s.session.turn_input = wire::TurnInput::body;
    s.adapter("echo done");
    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, std::string(150'000, 'x')).body == "done\n");
}

TEST_CASE("a failed turn answers with what happened") {
    Scene s;
    std::string expected;
    SUBCASE("a status") {
        s.adapter("echo out; echo the cause >&2; exit 3");
        expected =
            "The turn failed: the adapter exited with status 3.\n\n"
            "The end of its standard error:\nthe cause\n";
    }

    SUBCASE("a signal") {
        s.adapter("kill -SEGV $$");
        expected = "The turn failed: the adapter was ended by SIGSEGV.\n";
    }

    SUBCASE("the deadline, with a deaf adapter") {
        s.session.limits.turn_seconds = 1;
        s.adapter("trap '' TERM; echo waiting >&2; while :; do sleep 1 & wait; done");
        expected =
            "The turn failed: it ran longer than 1 seconds and was ended.\n\n"
            "The end of its standard error:\nwaiting\n";
    }

    SUBCASE("no workspace") {
        s.adapter("echo never");
        s.session.workspace = s.root + "/gone";
        expected =
            "The turn failed: it could not be started: spawn /bin/sh: chdir: No such file or "
            "directory.\n";
    }

    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == expected);
    // And the session goes on.
    s.turn(broker, receive, "y");
}

TEST_CASE(
    "more output than a reply may hold is cut and says so, more errors than a file may hold too") {
    Scene s;
    s.session.limits.reply_bytes = 1000;
    s.adapter("head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero >&2");
    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body ==
          std::string(1000, 'x') + "\n[cut: the turn wrote 3000000 bytes]\n");
    CHECK(std::filesystem::file_size(s.run_directory + "/rw/turns/0001.stderr") == 1024 * 1024);
}

TEST_CASE("output that isn't UTF-8 becomes a reply that is") {
    Scene s;
    s.adapter("printf 'a\\377b\\303'");
    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body ==
          "a\xEF\xBF\xBD"
          "b\xEF\xBF\xBD");
}

TEST_CASE("a background process that holds standard output hangs nothing and doesn't survive") {
    Scene s;
    s.adapter("sleep 1000 & echo $! > pid; echo done");
    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == "done\n");
    const pid_t left = static_cast<pid_t>(std::stoi(read_text(s.session.workspace + "/pid")));
    // Killed with its group; who reaps it here is the machine's own first process.
    if (auto pidfd = process::open_pidfd(left)) {
        wait_readable(pidfd->get());
    }
}

TEST_CASE("files planted where the runner makes its own are passed over, not opened") {
    Scene s;
    const std::string turns = s.run_directory + "/rw/turns/";
    REQUIRE(::mkfifo((turns + "0001.request").c_str(), 0600) == 0);
    write_text(s.root + "/victim", "untouched");
    std::filesystem::create_symlink(s.root + "/victim", turns + "0002.reply");
    std::filesystem::create_symlink(s.root + "/nowhere", turns + "0003.stderr");
    s.adapter("basename $MOSAIC_REQUEST_FILE");
    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == "0004.request\n");
    CHECK(read_text(s.root + "/victim") == "untouched");
    CHECK_FALSE(std::filesystem::exists(s.root + "/nowhere"));
    CHECK_FALSE(std::filesystem::exists(turns + "0002.request"));
}

TEST_CASE("replies and notes have a turn but no answer") {
    Scene s;
    s.adapter("echo $MOSAIC_MESSAGE_CLASS >> seen");
    s.start();
    auto [broker, receive] = s.claimed();
    for (const auto one : {wire::MessageClass::reply, wire::MessageClass::note}) {
        broker.ok(receive, delivery("n" + std::to_string(static_cast<int>(one)), "fyi", one));
        broker.ok(broker.expect("message.ack"));
        receive = broker.expect("message.receive");
    }
    CHECK(read_text(s.session.workspace + "/seen") == "REPLY\nNOTE\n");
}

TEST_CASE("a turn that ends by marker ends when the marker appears") {
    Scene s;
    s.session.turn_end = wire::TurnEnd::marker;
    write_text(s.session.turn_marker, "an old one");
    SUBCASE("the adapter stays") {
        s.adapter(
            "test -e $MOSAIC_TURN_MARKER && exit 9; echo said; : > $MOSAIC_TURN_MARKER\n"
            "sleep 1000");
    }

    SUBCASE("the adapter leaves, with a status") {
        s.adapter(
            "test -e $MOSAIC_TURN_MARKER && exit 9; echo said; : > $MOSAIC_TURN_MARKER\n"
            "exit 5");
    }

    SUBCASE("the adapter leaves without a marker") {
        s.adapter("echo said");
    }

    SUBCASE("a full directory stands in the marker's place") {
        std::filesystem::remove(s.session.turn_marker);
        std::filesystem::create_directories(s.session.turn_marker + "/full");
        s.adapter("test -e $MOSAIC_TURN_MARKER && exit 9; echo said");
    }

    s.start();
    auto [broker, receive] = s.claimed();
    CHECK(s.turn(broker, receive, "x").body == "said\n");
    CHECK(s.turn(broker, receive, "x").body == "said\n");
}

TEST_CASE("a marker ends a turn also where no instance of inotify is left to watch for it") {
    // Another session of the user's may have them all.
    mosaic::test::under_filter(mosaic::test::refused_call(SYS_inotify_init1, EMFILE), [] {
        Scene s;
        s.session.turn_end = wire::TurnEnd::marker;
        s.adapter("echo said; : > $MOSAIC_TURN_MARKER\nsleep 1000");
        s.start();
        auto [broker, receive] = s.claimed();
        CHECK(s.turn(broker, receive, "x").body == "said\n");
    });
}

TEST_CASE("a broker that goes away during a turn gets the reply once it is back, once") {
    Scene s;
    REQUIRE(::mkfifo((s.root + "/gate").c_str(), 0600) == 0);
    s.adapter("echo x >> runs; read line < ../gate; echo $line");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    {
        const UniqueFd gate(::open((s.root + "/gate").c_str(), O_WRONLY | O_CLOEXEC));
        broker.close();
        Peer back = s.broker();
        back.ok(back.expect("role.claim"));
        REQUIRE(::write(gate.get(), "kept\n", 5) == 5);
        const auto send = back.expect("message.send");
        CHECK(*send.args.find("body")->string() == "kept\n");
        // Lost again before the reply is acknowledged: it comes again, then the ack, once each.
        back.close();
    }
    Peer third = s.broker();
    third.ok(third.expect("role.claim"));
    const auto send = third.expect("message.send");
    CHECK(*send.args.find("in_reply_to")->string() == "m1");
    third.ok(send, json::Value(json::Object{{"id", "m2"}}));
    third.expect("message.ack");
    third.close();
    Peer fourth = s.broker();
    fourth.ok(fourth.expect("role.claim"));
    // The ack was never answered, so it is repeated. This broker has forgotten it all the same.
    fourth.refuse(fourth.expect("message.ack"), "not-found");
    fourth.ok(fourth.expect("message.receive"), delivery("m1", "x"));
    fourth.ok(fourth.expect("message.ack"));
    fourth.expect("message.receive");
    CHECK(read_text(s.session.workspace + "/runs") == "x\n");
}

TEST_CASE("a reply that has to wait is sent again, one that is refused is dropped") {
    Scene s;
    s.adapter("echo hi");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    broker.refuse(broker.expect("message.send"), "quota-exceeded");
    broker.refuse(broker.expect("message.send"), "not-authorized");
    broker.ok(broker.expect("message.ack"));
    CHECK(s.err().find("not-authorized") != std::string::npos);
    for (const char* passes : {"storage-unavailable", "decision-required"}) {
        CAPTURE(passes);
        broker.ok(broker.expect("message.receive"), delivery(passes, "x"));
        broker.refuse(broker.expect("message.send"), passes);
        broker.ok(broker.expect("message.send"), json::Value(json::Object{{"id", "answer"}}));
        broker.ok(broker.expect("message.ack"));
    }
}

TEST_CASE("SIGTERM during a turn ends it, answers nothing and releases the role") {
    Scene s;
    REQUIRE(::mkfifo((s.root + "/gate").c_str(), 0600) == 0);
    SUBCASE("an adapter that listens") {
        s.adapter("echo > ../gate; exec sleep 1000");
    }

    SUBCASE("a deaf one") {
        s.adapter("trap '' TERM; echo > ../gate; sleep 1000");
    }

    SUBCASE("one that floods") {
        s.adapter("trap '' TERM; echo > ../gate; while :; do echo yyyyyyyyyyyyyyyyyyy; done");
    }

    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    read_text(s.root + "/gate");
    s.terminate();
    broker.ok(broker.expect("role.release"));
    CHECK(s.exit().exit_code == runner_exit::kStopped);
}

TEST_CASE("a turn dies with its runner, pid 1 or not") {
    Scene s;
    const std::string gate = s.root + "/gate";
    REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
    s.adapter("echo $$ > ../gate; exec sleep 1000");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    const auto adapter = process::open_pidfd(static_cast<pid_t>(std::stoi(read_text(gate))));
    REQUIRE(adapter.has_value());
    REQUIRE(::kill(s.pid(), SIGKILL) == 0);
    wait_readable(adapter->get());
}

TEST_CASE("what a turn has started dies with a session that gives up") {
    Scene s;
    const std::string gate = s.root + "/gate";
    REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
    s.adapter("sleep 1000 & echo $! > ../gate; wait");
    s.start();
    auto [broker, receive] = s.claimed();
    broker.ok(receive, delivery("m1", "x"));
    const auto started = process::open_pidfd(static_cast<pid_t>(std::stoi(read_text(gate))));
    REQUIRE(started.has_value());
    broker.close();
    Peer next = s.broker();
    next.refuse(next.expect("role.claim"), "role-held");
    CHECK(s.exit().exit_code == runner_exit::kClaimRefused);
    wait_readable(started->get());
}
