// Goal: a session that watches as many descriptors as its user may (fs.epoll.max_user_watches, one
// count for all of a user's processes) keeps nobody from the broker. Method: a filter of system
// calls answers the broker as the kernel does then, so that no test has to use all of them up.

#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fixture.h"
#include "refused_call.h"

namespace mosaic::broker::test {
namespace {

// ENOSPC for each descriptor that is to be watched and whose number has one of these bits; 0: for
// all.
std::vector<sock_filter> no_watches(uint32_t bits) {
    constexpr auto kArguments = static_cast<uint32_t>(offsetof(seccomp_data, args));
    constexpr uint32_t kOperation = kArguments + 8;  // the lower half, on a little-endian machine
    constexpr uint32_t kDescriptor = kArguments + 16;
    const uint8_t others = bits == 0 ? 0 : 1;
    return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 5),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOperation),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDescriptor),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, others),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}

// Runs are bound, claim, talk and end, humans come and go.
void a_working_day() {
    World world;
    world.start_configured();
    const auto pm = world.session({"pm", ""}, kPmRun);
    auto coder = world.session({"coder", ""}, kCoderRun);
    wire::MessageReceiveArgs wait;
    wait.wait = true;
    const int64_t waits = coder.line->post("message.receive", wait.to_value(), coder.cap);
    CHECK(pm.ask("message.send", letter({"coder", ""}, "to the one who waits").to_value()).ok);
    CHECK(coder.line->wait_reply(waits).ok);
    std::vector<std::unique_ptr<Line>> humans;
    for (size_t i = 0; i < limits::kAdminClientsMax; ++i) {
        humans.push_back(world.admin());
        CHECK(humans.back()->ask("sessions", kNothing).ok);
    }
    humans.clear();
    coder.line->close();
    coder.line = std::make_unique<Line>(coder.runner->connect(world.bus_path));
    CHECK(coder.ask("message.receive", kNothing).ok);
    // Each has its turn beside others that always have something to say.
    for (int64_t id = 0; id < 40; ++id) {
        pm.line->post("task.list", kNothing, pm.cap);
    }
    CHECK(world.admin()->ask("sessions", kNothing).ok);
    const auto ended = world.stop();
    CHECK(ended.code == 0);
    const std::string told = "no epoll watches left";
    CHECK(ended.log.find(told) != std::string::npos);
    CHECK(ended.log.find(told) == ended.log.rfind(told));
}

}  // namespace

TEST_CASE("a user who has no epoll watches left is served all the same") {
    SUBCASE("from the start") {
        mosaic::test::under_filter(no_watches(0), a_working_day);
    }
    SUBCASE("some descriptors came before") {
        mosaic::test::under_filter(no_watches(1), a_working_day);
    }
}

}  // namespace mosaic::broker::test
