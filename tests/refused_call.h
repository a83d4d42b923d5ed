#pragma once

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

// What the kernel answers when something that it counts per user is used up, without using it up.

namespace mosaic::test {

// Runs the body in a thread that wears a filter of system calls, and what it starts inherits: it
// can't be taken off again. An exception of the body's is passed on.
inline void under_filter(std::vector<sock_filter> steps, const std::function<void()>& body) {
    std::exception_ptr failed;
    std::thread([&] {
        try {
            const sock_fprog program{static_cast<uint16_t>(steps.size()), steps.data()};
            REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
            REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
            body();
        } catch (...) {
            failed = std::current_exception();
        }
    }).join();
    if (failed) {
        std::rethrow_exception(failed);
    }
}

// A filter that answers one call with an errno.
inline std::vector<sock_filter> refused_call(uint32_t call, uint32_t answer) {
    return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}

}  // namespace mosaic::test
