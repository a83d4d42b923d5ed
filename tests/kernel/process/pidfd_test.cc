#include "process/pidfd.h"

#include <signal.h>

#include "process/proc.h"
#include "support.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

TEST_CASE("a pidfd tells life, death and how it ended") {
    Pipe input = make_pipe();
    SpawnSpec spec = probe({"wait"});
    spec.descriptors = {{input.read.get(), 0}};
    auto child = spawn(spec);
    REQUIRE(child.has_value());
    REQUIRE(child->wait_exec().has_value());
    const auto second = open_pidfd(child->pid());
    REQUIRE(second.has_value());
    CHECK_FALSE(has_exited(second->get()));
    CHECK(reap(child->pidfd()).error().code == Code::unavailable);

    const auto stat = read_stat(child->pid());
    REQUIRE(stat.has_value());
    CHECK(stat->parent == ::getpid());
    CHECK(stat->comm == "process_probe");
    CHECK(is_alive(child->pid(), stat->start_time));
    CHECK_FALSE(is_alive(child->pid(), stat->start_time + "0"));
    CHECK(read_cmdline(child->pid()) == std::vector<std::string>{"probe", "wait"});
    CHECK(read_exe(child->pid()) == MOSAIC_PROCESS_PROBE);
    CHECK(read_ns_pids(child->pid()).back() == child->pid());

    REQUIRE(signal_pidfd(second->get(), SIGTERM).has_value());
    pollfd wait{second->get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, -1) == 1);
    CHECK(has_exited(second->get()));
    CHECK(read_stat(child->pid())->state == 'Z');
    CHECK_FALSE(is_alive(child->pid(), stat->start_time));  // a zombie counts as gone
    CHECK(signal_pidfd(second->get(), SIGKILL).has_value());

    const auto exit = reap(child->pidfd());
    REQUIRE(exit.has_value());
    CHECK(exit->signal == SIGTERM);
    CHECK(exit->exit_code == 0);
    CHECK_FALSE(read_stat(child->pid()).has_value());
    CHECK(signal_pidfd(second->get(), SIGKILL).has_value());  // a gone process is no failure
    CHECK(has_exited(second->get()));
    CHECK(reap(child->pidfd()).error().sys == ECHILD);
    CHECK(open_pidfd(child->pid()).error().code == Code::missing);
}

TEST_CASE("numbers that name no process are refused") {
    CHECK(open_pidfd(0).error().code == Code::invalid);
    CHECK(open_pidfd(-5).error().code == Code::invalid);
    CHECK_FALSE(read_stat(0).has_value());
    CHECK_FALSE(read_stat(-1).has_value());
}
