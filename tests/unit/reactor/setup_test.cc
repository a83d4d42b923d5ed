#include "reactor/setup.h"

#include <doctest/doctest.h>

#include <cerrno>

using mosaic::reactor::explain_refusal;

namespace {

bool holds(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a refusal by the sysctl names it, its value and the remedy") {
    const std::string off = explain_refusal("io_uring_setup", EPERM, "2");
    CAPTURE(off);
    CHECK(holds(off, "io_uring_setup: Operation not permitted"));
    CHECK(holds(off, "kernel.io_uring_disabled is 2"));
    CHECK(holds(off, "sysctl kernel.io_uring_disabled=0"));
    CHECK_FALSE(holds(off, "io_uring_group"));

    const std::string group = explain_refusal("io_uring_setup", EPERM, "1");
    CAPTURE(group);
    CHECK(holds(group, "kernel.io_uring_disabled is 1"));
    CHECK(holds(group, "kernel.io_uring_group"));
}

TEST_CASE("a refusal with the sysctl at 0 or missing is a seccomp profile's") {
    for (const char* disabled : {"0", ""}) {
        for (const int sys : {EPERM, EACCES}) {
            const std::string text = explain_refusal("io_uring_setup", sys, disabled);
            CAPTURE(text);
            CHECK(holds(text, "seccomp profile"));
            CHECK(holds(text, "io_uring_enter"));
            CHECK_FALSE(holds(text, "io_uring_disabled"));
        }
    }
}

TEST_CASE("a missing system call is an old kernel or a seccomp profile") {
    const std::string text = explain_refusal("io_uring_setup", ENOSYS, "");
    CAPTURE(text);
    CHECK(holds(text, "Linux 5.15"));
    CHECK(holds(text, "CONFIG_IO_URING"));
    CHECK(holds(text, "seccomp profile"));
}

TEST_CASE("want of memory names the memory-lock limit, want of descriptors theirs") {
    CHECK(holds(explain_refusal("io_uring_setup", ENOMEM, "0"), "LimitMEMLOCK="));
    CHECK(holds(explain_refusal("io_uring_setup", EMFILE, "0"), "LimitNOFILE="));
    CHECK(holds(explain_refusal("io_uring_setup", ENFILE, "0"), "LimitNOFILE="));
}

TEST_CASE("any other errno is told as it is") {
    CHECK(explain_refusal("io_uring_setup", EFAULT, "0") ==
          "io_uring can't be used: io_uring_setup: Bad address");
}
