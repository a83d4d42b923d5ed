// The data root: what is made, and each thing that is refused, with the words a person gets. A
// refusal makes nothing.

#include "host/data_root.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "process/pidfd.h"
#include "process/spawn.h"
#include "rig.h"
#include "wire/limits.h"

using namespace mosaic;
using namespace mosaic::test;
using host::open_data_root;

namespace {

namespace fs = std::filesystem;

// Everything below a directory, with its modes.
std::string listing(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
        names.push_back(entry.path().string() + " " +
                        std::to_string(*mode_of(AT_FDCWD, entry.path())));
    }
    std::sort(names.begin(), names.end());
    std::string all;
    for (const std::string& name : names) {
        all += name + "\n";
    }
    return all;
}

// Opening it is refused in these words, and nothing is made.
void check_refused(const Scratch& scratch, const std::string& path, const std::string& words) {
    CAPTURE(path);
    const std::string before = listing(scratch.path());
    const auto root = open_data_root(path, "acme");
    REQUIRE_FALSE(root.has_value());
    CHECK(root.error().text == words);
    CHECK(listing(scratch.path()) == before);
}

// A data root that is complete.
std::string lay(const Scratch& scratch) {
    const std::string path = scratch / "data";
    const auto root = open_data_root(path, "acme");
    if (!root) {
        FAIL(root.error().text);
    }
    return path;
}

}  // namespace

TEST_CASE("a new data root is made whole and private, its parents too") {
    const Scratch scratch;
    const std::string path = scratch / "some/where/data";
    const auto root = open_data_root(path, "acme");
    REQUIRE(root.has_value());
    CHECK(root->path == path);
    for (const char* name : {"", "/bus-host", "/bus-host/stage", "/launches", "/launches/acme"}) {
        CAPTURE(name);
        CHECK(mode_of(AT_FDCWD, path + name) == 0700);
    }
    CHECK(mode_of(AT_FDCWD, path + "/bus-host/lock") == 0600);
    CHECK(content(AT_FDCWD, path + "/bus-host/lock") == std::to_string(::getpid()) + "\n");
    for (const UniqueFd* fd :
         {&root->root, &root->bus_host, &root->launches, &root->runs, &root->stage, &root->lock}) {
        REQUIRE(fd->valid());
        CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
    }
    CHECK(host::check_runs_directory(*root, "acme").has_value());
}

TEST_CASE("what is there is used again, through the operator's links") {
    const Scratch scratch;
    const std::string path = lay(scratch);
    const std::string before = listing(path);
    REQUIRE(::symlink(scratch.path().c_str(), (scratch / "link").c_str()) == 0);
    for (const std::string& name :
         {path,
          path + "/",
          scratch / "link/data",
          scratch / "link/../" + fs::path(scratch.path()).filename().string() + "/./data"}) {
        CAPTURE(name);
        const auto root = open_data_root(name, "acme");
        REQUIRE(root.has_value());
        CHECK(root->path == path);
    }
    CHECK(listing(path) == before);
}

TEST_CASE("a data root that isn't there yet may be named from the working directory") {
    const Scratch scratch;
    const fs::path before = fs::current_path();
    fs::current_path(scratch.path());
    const auto root = open_data_root("a/b", "acme");
    const auto beside = open_data_root("c", "acme");
    fs::current_path(before);
    REQUIRE(root.has_value());
    CHECK(root->path == scratch / "a/b");
    REQUIRE(beside.has_value());
    CHECK(beside->path == scratch / "c");
}

TEST_CASE("a data root that isn't there yet may be named with slashes to spare") {
    const Scratch scratch;
    const auto root = open_data_root(scratch / "a//./b///", "acme");
    REQUIRE(root.has_value());
    CHECK(root->path == scratch / "a/b");
}

TEST_CASE("places that can't be a data root are refused with the remedy") {
    const Scratch scratch;
    const auto in_tmp = [](const std::string& real) {
        return "the data root " + real +
               " lies under /tmp, where a session could rename the directories it stands on; "
               "choose another place with --data or dataRoot";
    };
    check_refused(scratch, "/tmp", in_tmp("/tmp"));
    check_refused(scratch, "/tmp/mosaic-data", in_tmp("/tmp/mosaic-data"));
    CHECK_FALSE(fs::exists("/tmp/mosaic-data"));
    REQUIRE(::symlink("/tmp", (scratch / "elsewhere").c_str()) == 0);
    check_refused(scratch, scratch / "elsewhere/data", in_tmp("/tmp/data"));
    check_refused(scratch, "/", "the data root can't be /; choose a directory of its own");
    check_refused(scratch,
                  scratch / "missing/../data",
                  "the data root " + (scratch / "missing/../data") +
                      " goes up from a directory that doesn't exist; name it without ..");
    // By a detour, /tmp is still /tmp.
    const std::string detour = scratch / "missing/../../../../tmp/data";
    check_refused(scratch,
                  detour,
                  "the data root " + detour +
                      " goes up from a directory that doesn't exist; name it without ..");
}

TEST_CASE("a path too long for the sockets is refused with its length, the longest isn't") {
    const Scratch scratch;
    const size_t room = limits::kSocketPathBytesMax - std::string("/bus-host/launch.sock").size() -
                        scratch.path().size() - 1;
    const std::string fits(room, 'd');
    {
        const auto root = open_data_root(scratch / fits, "acme");
        REQUIRE(root.has_value());
        CHECK(host::listen_on(*root, "launch.sock").has_value());
    }
    check_refused(scratch,
                  scratch / (fits + "x"),
                  "the data root " + (scratch / (fits + "x")) +
                      " is too long for a socket: its longest socket path has 108 bytes, at most "
                      "107 fit; choose a shorter place with --data or dataRoot");
}

TEST_CASE("a directory that isn't private is refused by name, and nothing is made") {
    const Scratch scratch;
    const std::string path = lay(scratch);
    for (const std::string& name : {std::string("data"),
                                    std::string("bus-host"),
                                    std::string("stage"),
                                    std::string("launches"),
                                    std::string("acme")}) {
        CAPTURE(name);
        std::string at = path;
        at += name == "bus-host"   ? "/bus-host"
              : name == "stage"    ? "/bus-host/stage"
              : name == "launches" ? "/launches"
              : name == "acme"     ? "/launches/acme"
                                   : "";
        REQUIRE(::chmod(at.c_str(), 0755) == 0);
        check_refused(
            scratch,
            path,
            "the data root " + path + " can't be used: " + name + " has mode 0755, not 0700");
        REQUIRE(::chmod(at.c_str(), 0700) == 0);
    }
    CHECK(open_data_root(path, "acme").has_value());
}

TEST_CASE("a directory that is unsafe keeps the others from being made") {
    const Scratch scratch;
    REQUIRE(::mkdirat(scratch.fd(), "data", 0700) == 0);
    REQUIRE(::mkdirat(scratch.fd(), "data/launches", 0700) == 0);
    REQUIRE(::mkdirat(scratch.fd(), "data/launches/acme", 0750) == 0);
    const std::string path = scratch / "data";
    check_refused(
        scratch, path, "the data root " + path + " can't be used: acme has mode 0750, not 0700");
}

TEST_CASE("a link or a file in a directory's place is refused") {
    const Scratch scratch;
    const std::string path = lay(scratch);
    for (const char* name : {"launches", "bus-host"}) {
        CAPTURE(name);
        const std::string at = path + "/" + name;
        REQUIRE(::rename(at.c_str(), (scratch / "aside").c_str()) == 0);
        REQUIRE(::symlink((scratch / "aside").c_str(), at.c_str()) == 0);
        check_refused(scratch,
                      path,
                      "the data root " + path + " can't be used: " + name + " is not a directory");
        REQUIRE(::unlink(at.c_str()) == 0);
        put(AT_FDCWD, at, "a file");
        check_refused(scratch,
                      path,
                      "the data root " + path + " can't be used: " + name + " is not a directory");
        REQUIRE(::unlink(at.c_str()) == 0);
        REQUIRE(::rename((scratch / "aside").c_str(), at.c_str()) == 0);
    }
    // A link that leads nowhere is no place to make one.
    REQUIRE(::symlink((scratch / "nowhere").c_str(), (scratch / "dangling").c_str()) == 0);
    check_refused(
        scratch,
        scratch / "dangling",
        "the data root " + (scratch / "dangling") + " can't be used: dangling is not a directory");
}

TEST_CASE("somebody else's directory is refused") {
    if (::geteuid() != 0) {
        skip_unless_root("only root can give a directory away");
        return;
    }
    const Scratch scratch;
    const std::string path = lay(scratch);
    REQUIRE(::chown((path + "/bus-host").c_str(), 65534, 65534) == 0);
    check_refused(
        scratch,
        path,
        "the data root " + path + " can't be used: bus-host is owned by user 65534, not by 0");
}

TEST_CASE("a data root that another process serves is refused with its pid") {
    const Scratch scratch;
    const std::string path = lay(scratch);
    const Ends input = make_pipe();
    Ends output = make_pipe();
    process::SpawnSpec spec;
    spec.path = MOSAIC_PUPPET;
    spec.argv = {"puppet", "lock", path + "/bus-host/lock"};
    spec.descriptors = {{input.a.get(), 0}, {output.b.get(), 1}, {2, 2}};
    auto holder = process::spawn(spec);
    REQUIRE(holder.has_value());
    REQUIRE(holder->wait_exec().has_value());
    output.b.reset();
    char line[16] = {};
    REQUIRE(::read(output.a.get(), line, sizeof(line)) == 7);  // "locked"
    check_refused(scratch,
                  path,
                  "another host serves " + path + " (pid " + std::to_string(holder->pid()) +
                      " holds " + path + "/bus-host/lock)");
    // Its name stays in the file after its death, its lock doesn't.
    REQUIRE(process::signal_pidfd(holder->pidfd(), SIGKILL).has_value());
    REQUIRE(exits_within(holder->pidfd(), 10'000));
    CHECK(process::reap(holder->pidfd()).has_value());
    CHECK(open_data_root(path, "acme").has_value());
    CHECK(content(AT_FDCWD, path + "/bus-host/lock") == std::to_string(::getpid()) + "\n");
}

TEST_CASE("a data root waits for what an earlier host was starting") {
    const Scratch scratch;
    const std::string path = lay(scratch);
    // Held as by a clone of a killed host that hasn't come to its exec.
    UniqueFd held(::open((path + "/bus-host/lock").c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(held.valid());
    REQUIRE(::flock(held.get(), LOCK_EX | LOCK_NB) == 0);
    Ends said = make_pipe();
    const UniqueFd before(::fcntl(2, F_DUPFD_CLOEXEC, 0));
    REQUIRE(::dup2(said.b.get(), 2) == 2);
    said.b.reset();
    std::string line;
    std::thread starting([&] {
        // The word that it waits lets the clone go.
        char byte = 0;
        while (::read(said.a.get(), &byte, 1) == 1 && byte != '\n') {
            line += byte;
        }
        held.reset();
    });
    const auto root = open_data_root(path, "acme");
    REQUIRE(::dup2(before.get(), 2) == 2);
    starting.join();
    CHECK(root.has_value());
    CHECK(line.find("waiting for a process that an earlier host was starting; it holds " + path +
                    "/bus-host/lock") != std::string::npos);
    CHECK_FALSE(held.valid());
}

TEST_CASE("no child keeps the lock alive, and a lock that is a link is refused") {
    const Scratch scratch;
    const std::string path = scratch / "data";
    Ends input = make_pipe();
    std::optional<process::Spawned> child;
    {
        const auto root = open_data_root(path, "acme");
        REQUIRE(root.has_value());
        process::SpawnSpec spec;
        spec.path = MOSAIC_PUPPET;
        spec.argv = {"puppet", "wait"};
        // Even one that inherits the very descriptor.
        spec.descriptors = {{root->lock.get(), 3}};
        auto spawned = process::spawn(spec);
        REQUIRE(spawned.has_value());
        REQUIRE(spawned->wait_exec().has_value());
        child.emplace(std::move(*spawned));
    }
    Ends output = make_pipe();
    process::SpawnSpec spec;
    spec.path = MOSAIC_PUPPET;
    spec.argv = {"puppet", "lock", path + "/bus-host/lock"};
    spec.descriptors = {{input.a.get(), 0}, {output.b.get(), 1}};
    auto next = process::spawn(spec);
    REQUIRE(next.has_value());
    REQUIRE(next->wait_exec().has_value());
    output.b.reset();
    char line[16] = {};
    CHECK(::read(output.a.get(), line, sizeof(line)) == 7);
    input.b.reset();
    REQUIRE(exits_within(next->pidfd(), 10'000));
    CHECK(process::reap(next->pidfd()).has_value());
    REQUIRE(process::signal_pidfd(child->pidfd(), SIGKILL).has_value());
    REQUIRE(exits_within(child->pidfd(), 10'000));
    CHECK(process::reap(child->pidfd()).has_value());

    REQUIRE(::unlink((path + "/bus-host/lock").c_str()) == 0);
    put(scratch.fd(), "target", "keep");
    REQUIRE(::symlink((scratch / "target").c_str(), (path + "/bus-host/lock").c_str()) == 0);
    check_refused(scratch,
                  path,
                  "the data root " + path + " can't be used: " + path +
                      "/bus-host/lock: Too many levels of symbolic links");
    CHECK(content(scratch.fd(), "target") == "keep");
}

TEST_CASE("runs are written only where the paths of the runs still lead") {
    const Scratch scratch;
    const std::string path = scratch / "data";
    const auto root = open_data_root(path, "acme");
    REQUIRE(root.has_value());
    const std::string runs = path + "/launches/acme";
    REQUIRE(::rename(runs.c_str(), (scratch / "moved").c_str()) == 0);
    auto checked = host::check_runs_directory(*root, "acme");
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == Code::missing);
    REQUIRE(::mkdir(runs.c_str(), 0700) == 0);
    checked = host::check_runs_directory(*root, "acme");
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == Code::unsafe);
    CHECK(checked.error().text == runs + " isn't the directory that it was at the start");
    REQUIRE(::rmdir(runs.c_str()) == 0);
    REQUIRE(::symlink((scratch / "moved").c_str(), runs.c_str()) == 0);
    CHECK(host::check_runs_directory(*root, "acme").error().code == Code::unsafe);
    REQUIRE(::unlink(runs.c_str()) == 0);
    REQUIRE(::rename((scratch / "moved").c_str(), runs.c_str()) == 0);
    CHECK(host::check_runs_directory(*root, "acme").has_value());
    REQUIRE(::chmod(runs.c_str(), 0777) == 0);
    CHECK(host::check_runs_directory(*root, "acme").error().code == Code::unsafe);
}

TEST_CASE("what an earlier host left is on the disk before it is read") {
    const Scratch scratch;
    auto root = open_data_root(lay(scratch), "acme");
    REQUIRE(root.has_value());
    const auto left = host::read_left_sessions(*root, "acme");
    REQUIRE(left.has_value());
    CHECK(left->entries.empty());
    // Names can be read through it, and fsync(2) refuses it.
    const std::string path = root->path + "/bus-host";
    root->bus_host = UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto unsynced = host::read_left_sessions(*root, "acme");
    REQUIRE_FALSE(unsynced.has_value());
    CHECK(unsynced.error().text.starts_with("fsync of the directory of " + path +
                                            "/sessions.json: "));
}

TEST_CASE("a socket is made private, over what an earlier host left there") {
    const Scratch scratch;
    const auto root = open_data_root(scratch / "data", "acme");
    REQUIRE(root.has_value());
    put(root->bus_host.get(), "bus.sock", "left over");
    for (int i = 0; i < 2; ++i) {
        const auto socket = host::listen_on(*root, "bus.sock");
        REQUIRE(socket.has_value());
        CHECK(mode_of(root->bus_host.get(), "bus.sock") == 0600);
        CHECK((::fcntl(socket->get(), F_GETFD) & FD_CLOEXEC) != 0);
        int listening = 0;
        socklen_t size = sizeof(listening);
        REQUIRE(::getsockopt(socket->get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0);
        CHECK(listening == 1);
    }
    REQUIRE(::mkdirat(root->bus_host.get(), "admin.sock", 0700) == 0);
    const auto refused = host::listen_on(*root, "admin.sock");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().text == root->path + "/bus-host/admin.sock: Is a directory");
}
