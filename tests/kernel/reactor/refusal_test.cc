// Rings that can't be had. Each case runs in a child, because a filter and a limit are for life.

#include <seccomp.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>

#include "fixture.h"

using namespace reactor_test;

namespace {

bool deny(std::initializer_list<int> calls, int sys) {
    scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
    bool fine = filter != nullptr;
    for (const int call : calls) {
        fine = fine &&
               ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<unsigned>(sys)), call, 0) == 0;
    }
    fine = fine && ::seccomp_load(filter) == 0;
    ::seccomp_release(filter);
    return fine;
}

// The error of a ring made in a child after `prepare`: "<code> <sys> <text>"; "made" when it was
// made.
template <class Prepare>
std::string ring_in_child(Prepare prepare) {
    Ends pipe = make_pipe();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::string said = "not prepared";
        if (prepare()) {
            const auto ring = Ring::create({});
            said = ring.has_value()
                       ? "made"
                       : std::to_string(static_cast<int>(ring.error().code)) + " " +
                             std::to_string(ring.error().sys) + " " + ring.error().text;
        }
        const ssize_t size = ::write(pipe.b.get(), said.data(), said.size());
        ::_exit(size == static_cast<ssize_t>(said.size()) ? 0 : 1);
    }
    pipe.b.reset();
    std::string said;
    std::array<char, 512> part{};
    ssize_t size = 0;
    while ((size = ::read(pipe.a.get(), part.data(), part.size())) > 0) {
        said.append(part.data(), static_cast<size_t>(size));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    return said;
}

std::string unavailable(int sys) {
    return std::to_string(static_cast<int>(mosaic::Code::unavailable)) + " " + std::to_string(sys) +
           " io_uring can't be used: ";
}

}  // namespace

TEST_CASE("under a filter that answers EPERM the error tells of the profile") {
    const std::string said = ring_in_child([] { return deny({SCMP_SYS(io_uring_setup)}, EPERM); });
    CAPTURE(said);
    CHECK(said.find(unavailable(EPERM) + "io_uring_setup: Operation not permitted; ") == 0);
    const bool cause = said.find("seccomp profile") != std::string::npos ||
                       said.find("kernel.io_uring_disabled is") != std::string::npos;
    CHECK(cause);
}

TEST_CASE("under a filter that answers ENOSYS the error tells of kernel and profile") {
    const std::string said = ring_in_child([] { return deny({SCMP_SYS(io_uring_setup)}, ENOSYS); });
    CAPTURE(said);
    CHECK(said.find(unavailable(ENOSYS) + "io_uring_setup: ") == 0);
    CHECK(said.find("Linux 5.15") != std::string::npos);
    CHECK(said.find("seccomp profile") != std::string::npos);
}

TEST_CASE("out of memory for the ring the error tells of the memory-lock limit") {
    const std::string said = ring_in_child([] { return deny({SCMP_SYS(io_uring_setup)}, ENOMEM); });
    CAPTURE(said);
    CHECK(said.find(unavailable(ENOMEM)) == 0);
    CHECK(said.find("LimitMEMLOCK=") != std::string::npos);
}

TEST_CASE("a filter that lets only the set-up pass is found at the start") {
    if (make_ring() == nullptr) {
        return;
    }
    const std::string said =
        ring_in_child([] { return deny({SCMP_SYS(io_uring_register)}, EPERM); });
    CAPTURE(said);
    CHECK(said.find(unavailable(EPERM) + "io_uring_register: ") == 0);
}

TEST_CASE("a memory-lock limit of 0 either does no harm or is named") {
    if (make_ring() == nullptr) {
        return;
    }
    const std::string said = ring_in_child([] {
        // Root is exempt from the limit; an ordinary user is not.
        const rlimit none{0, 0};
        return ::setrlimit(RLIMIT_MEMLOCK, &none) == 0 &&
               (::getuid() != 0 || ::setresuid(65534, 65534, 65534) == 0);
    });
    CAPTURE(said);
    const bool named =
        said.find(unavailable(ENOMEM)) == 0 && said.find("LimitMEMLOCK=") != std::string::npos;
    CHECK((said == "made" || named));
}

TEST_CASE("out of descriptors the error tells of their limit") {
    if (make_ring() == nullptr) {
        return;
    }
    const std::string said = ring_in_child([] {
        const int lowest_free = ::dup(0);
        ::close(lowest_free);
        const rlimit tight{static_cast<rlim_t>(lowest_free), static_cast<rlim_t>(lowest_free)};
        return ::setrlimit(RLIMIT_NOFILE, &tight) == 0;
    });
    CAPTURE(said);
    CHECK(said.find(unavailable(EMFILE)) == 0);
    CHECK(said.find("LimitNOFILE=") != std::string::npos);
}
