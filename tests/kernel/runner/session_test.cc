// Goal: a session starts only on what it was given, claims its role, and ends with the exit code
// that tells why. Method: the real program, its host and its broker played by the test.

#include <sys/resource.h>

#include <algorithm>

#include "kernel/runner/scene.h"
#include "wire/codes.h"

using namespace scene;

TEST_CASE("the runner claims its role with the capability and says so") {
    Scene s;
    s.start();
    Peer broker = s.broker();
    const auto claim = broker.expect("role.claim");
    CHECK(*claim.args.find("run")->string() == kRun);
    broker.ok(claim);
    const auto receive = broker.expect("message.receive");
    CHECK(*receive.args.find("wait")->boolean());
    s.terminate();
    broker.ok(broker.expect("role.release"));
    CHECK(s.exit().exit_code == runner_exit::kStopped);
    CHECK(s.out() == std::string("claimed by run ") + kRun + "\n");
    CHECK_FALSE(std::filesystem::exists(s.session.tool_socket));
}

TEST_CASE("nothing is asked or said after the role was given back") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    s.terminate();
    const auto release = broker.expect("role.release");
    // As the broker does it: whoever waits for messages hears first that the role is free.
    broker.refuse(receive, "not-authorized");
    broker.ok(release);
    CHECK(s.exit().exit_code == runner_exit::kStopped);
    CHECK_FALSE(broker.line().has_value());
    CHECK(s.err().empty());
}

TEST_CASE("a broker that doesn't answer the release delays the end by a bounded time") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    s.terminate();
    broker.expect("role.release");
    CHECK(s.exit().exit_code == runner_exit::kStopped);
}

TEST_CASE("a refused claim ends the session with its own code") {
    Scene s;
    s.start();
    Peer broker = s.broker();
    broker.refuse(broker.expect("role.claim"), "role-held");
    CHECK(s.exit().exit_code == runner_exit::kClaimRefused);
    CHECK(s.err().find("role-held") != std::string::npos);
    CHECK(s.out().empty());
}

TEST_CASE("a capability that has died ends the session as refused") {
    Scene s;
    s.start();
    auto [broker, receive] = s.claimed();
    broker.refuse(receive, "unknown-capability");
    CHECK(s.exit().exit_code == runner_exit::kClaimRefused);
}

TEST_CASE("variables that no session may have end it before anything is read") {
    Scene s;
    StartOptions options;
    options.env = {"GITEA_TOKEN=s3cret", "VIKUNJA_URL=s3cret", "AWS_REGION=s3cret", "GIT_DIR=x"};
    s.start(options);
    CHECK(s.exit().exit_code == runner_exit::kFounderCredentials);
    CHECK(s.err().find("GITEA_TOKEN, VIKUNJA_URL, AWS_REGION") != std::string::npos);
    CHECK(s.err().find("s3cret") == std::string::npos);
    CHECK(s.err().find("GIT_DIR") == std::string::npos);
}

TEST_CASE("a session file that can't be used is named with what is wrong") {
    Scene s;
    SUBCASE("not JSON") {
        write_text(s.run_directory + "/session.json", "{");
    }

    SUBCASE("a wrong member") {
        json::Value value = s.session.to_value();
        value.set("turnEnd", "never");
        write_text(s.run_directory + "/session.json", json::dump(value));
    }

    SUBCASE("a link") {
        write_text(s.root + "/elsewhere", json::dump(s.session.to_value()));
        std::filesystem::create_symlink(s.root + "/elsewhere", s.run_directory + "/session.json");
    }

    SUBCASE("too long") {
        write_text(s.run_directory + "/session.json",
                   json::dump(s.session.to_value()) + std::string(size_t{2} << 20U, ' '));
    }

    s.start({.prefix = {}, .env = {}, .capability = false});
    CHECK(s.exit().exit_code == runner_exit::kSessionInvalid);
    CHECK(s.err().find("session.json") != std::string::npos);
}

TEST_CASE("a missing part of the run directory, or a link, ends the session as invalid") {
    for (const std::string part : {"/bundle/policy.json", "/rw/turns", "/rw/io"}) {
        for (const bool link : {false, true}) {
            CAPTURE(part);
            CAPTURE(link);
            Scene s;
            const std::string path = s.run_directory + part;
            if (link) {
                std::filesystem::rename(path, s.root + "/elsewhere");
                std::filesystem::create_symlink(s.root + "/elsewhere", path);
            } else {
                std::filesystem::remove_all(path);
            }
            s.start({.prefix = {}, .env = {}, .capability = false});
            CHECK(s.exit().exit_code == runner_exit::kSessionInvalid);
        }
    }
}

TEST_CASE("a host that goes away before the capability ends the session, a stop or not") {
    Scene s;
    s.start({.prefix = {}, .env = {}, .capability = false});
    SUBCASE("nothing came") {}

    SUBCASE("half a line came") {
        s.give("{\"cap\":\"abc");
    }

    s.host_end.reset();
    CHECK(s.exit().exit_code == runner_exit::kSessionInvalid);
}

TEST_CASE("a warm seat is stopped while it waits for its capability") {
    Scene s;
    s.session.warm = true;
    s.start({.prefix = {}, .env = {}, .capability = false});
    s.terminate();
    CHECK(s.exit().exit_code == runner_exit::kStopped);
}

TEST_CASE("a broker that can't be reached for all retries ends the session") {
    Scene s;
    s.session.limits.broker_retries = 1;
    SUBCASE("nobody listens") {
        std::filesystem::remove(s.session.broker_socket);
        s.start();
    }

    SUBCASE("it goes away after the claim") {
        s.start();
        auto [broker, receive] = s.claimed();
        broker.close();
        Peer again = s.broker();
        again.close();
    }

    CHECK(s.exit().exit_code == runner_exit::kBrokerUnreachable);
    CHECK(s.err().find("trying again in 100 ms") != std::string::npos);
}

TEST_CASE("a queue that others fill is waited for, and no failure of the broker's") {
    Scene s;
    s.session.limits.broker_retries = 0;
    s.set_backlog(0);  // one connection
    const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    s.session.broker_socket.copy(address.sun_path, s.session.broker_socket.size());
    REQUIRE(::connect(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    s.start();
    REQUIRE(s.wait_err("queue of connections is full"));
    s.broker().close();  // the other one
    auto [broker, receive] = s.claimed();
    s.terminate();
    broker.ok(broker.expect("role.release"));
    CHECK(s.exit().exit_code == runner_exit::kStopped);
}

TEST_CASE("a broker without storage is one to come back to") {
    Scene s;
    s.start();
    Peer broker = s.broker();
    broker.refuse(broker.expect("role.claim"), "storage-unavailable");
    auto [back, receive] = s.claimed();
    s.terminate();
    back.ok(back.expect("role.release"));
    CHECK(s.exit().exit_code == runner_exit::kStopped);
}

TEST_CASE("a process of the same ordinary user can't look into a runner") {
    Scene s;
    StartOptions options;
    s.hand_over(options);
    s.start(options);
    auto [broker, receive] = s.claimed();
    const std::string proc = "/proc/" + std::to_string(s.pid());
    CHECK(read_text(proc + "/status").find("NoNewPrivs:\t1") != std::string::npos);

    process::SpawnSpec spec;
    if (::geteuid() == 0) {
        spec.argv = Scene::nobody();
    }
    spec.argv.insert(spec.argv.end(),
                     {"/bin/sh",
                      "-c",
                      "cat $0/status > /dev/null || exit 1; cat $0/environ && exit 2\n"
                      "head -c 1 $0/mem && exit 3; ls $0/fd && exit 4; readlink $0/exe && exit 5\n"
                      "exit 0",
                      proc});
    spec.path = spec.argv[0];
    spec.env = {"PATH=/usr/bin:/bin"};
    auto probe = process::spawn(spec);
    REQUIRE(probe.has_value());
    REQUIRE(probe->wait_exec().has_value());
    wait_readable(probe->pidfd());
    const auto how = process::reap(probe->pidfd());
    REQUIRE(how.has_value());
    CHECK(how->exit_code == 0);
    CHECK(how->signal == 0);
}

TEST_CASE("the capability stands in no argument, variable or file, and once in memory") {
    Scene s;
    s.adapter("env; cat \"$MOSAIC_REQUEST_FILE\"; tr '\\0' '\\n' < /proc/self/environ");
    s.start();
    auto [broker, receive] = s.claimed();
    const auto reply = s.turn(broker, receive, "show yourself");
    CHECK(reply.body.find(kCapability) == std::string::npos);
    const std::string proc = "/proc/" + std::to_string(s.pid());
    CHECK(read_text(proc + "/cmdline").find(kCapability) == std::string::npos);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(s.root)) {
        if (entry.is_regular_file()) {
            CHECK(read_text(entry.path()).find(kCapability) == std::string::npos);
        }
    }
    if (::geteuid() != 0) {
        return;  // only root may look
    }
    CHECK(read_text(proc + "/environ").find(kCapability) == std::string::npos);
    size_t found = 0;
    std::ifstream maps(proc + "/maps");
    std::ifstream memory(proc + "/mem", std::ios::binary);
    std::string line;
    while (std::getline(maps, line)) {
        if (line.find(" rw") == std::string::npos) {
            continue;
        }
        size_t used = 0;
        const size_t from = std::stoull(line, &used, 16);
        const size_t to = std::stoull(line.substr(used + 1), nullptr, 16);
        std::string bytes(to - from, '\0');
        memory.clear();
        memory.seekg(static_cast<std::streamoff>(from));
        memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        for (size_t at = bytes.find(kCapability); at != std::string::npos;
             at = bytes.find(kCapability, at + 1)) {
            ++found;
        }
    }
    CHECK(found == 1);
}

TEST_CASE("limits are lowered, soft and hard, and it goes before the host when memory runs out") {
    Scene s;
    s.session.limits.processes = 2000;
    s.session.limits.open_files = 200;
    s.start();
    auto [broker, receive] = s.claimed();
    const std::string text = read_text("/proc/" + std::to_string(s.pid()) + "/limits");
    const auto check = [&](const std::string& name, __rlimit_resource_t resource, rlim_t wanted) {
        CAPTURE(name);
        rlimit ours{};
        REQUIRE(::getrlimit(resource, &ours) == 0);
        const rlim_t most = std::min(ours.rlim_max, wanted);
        const size_t found = text.find(name);
        REQUIRE(found != std::string::npos);
        std::istringstream values(text.substr(found + name.size()));
        rlim_t soft = 0;
        rlim_t hard = 0;
        values >> soft >> hard;
        CHECK(soft == most);
        CHECK(hard == most);
    };
    check("Max processes", RLIMIT_NPROC, 2000);
    check("Max open files", RLIMIT_NOFILE, 200);
    check("Max core file size", RLIMIT_CORE, 1);
    check("Max locked memory", RLIMIT_MEMLOCK, 65536);
    check("Max pending signals", RLIMIT_SIGPENDING, 1024);
    CHECK(read_text("/proc/" + std::to_string(s.pid()) + "/oom_score_adj") == "500\n");
}

TEST_CASE("a runner dies with what started it") {
    Scene s;
    StartOptions options;
    // Its death is all that the runner sees of it: input stays open, and so does the broker.
    options.prefix = {"/bin/sh", "-c", "exec 3<&0; \"$@\" <&3 3<&- & wait", "sh"};
    s.start(options);
    auto [broker, receive] = s.claimed();
    ucred runner{};
    socklen_t size = sizeof(runner);
    REQUIRE(::getsockopt(broker.fd(), SOL_SOCKET, SO_PEERCRED, &runner, &size) == 0);
    REQUIRE(runner.pid != s.pid());
    REQUIRE(::kill(s.pid(), SIGKILL) == 0);
    CHECK_FALSE(broker.line().has_value());
}
