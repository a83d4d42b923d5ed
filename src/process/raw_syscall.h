#pragma once

#include <sys/syscall.h>

#include <cstddef>

// System calls for code that shares its parent's memory and thread-local storage without being one
// of its threads: they return the negative errno and never touch the errno variable.

// Marks every function that runs in such a child: no sanitizer bookkeeping and no stack protector,
// because these would act on the parent's thread.
#define MOSAIC_SHARED_MEMORY_CHILD           \
    __attribute__((no_sanitize("address"),   \
                   no_sanitize("undefined"), \
                   no_sanitize("thread"),    \
                   no_stack_protector,       \
                   no_instrument_function))

namespace mosaic::process {

MOSAIC_SHARED_MEMORY_CHILD inline long raw_syscall(
    long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
#if defined(__x86_64__)
    long result = number;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long call __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    __asm__ volatile("svc #0"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return first;
#else
#error "raw system calls are written for x86-64 and arm64 only"
#endif
}

// clone3(2) of a child that has a stack of its own in `arguments` and runs `function`, which never
// returns. To the parent the child's pid, or the negative errno.
inline long raw_clone3(const void* arguments, size_t size, int (*function)(void*), void* argument) {
#if defined(__x86_64__)
    long result = SYS_clone3;
    __asm__ volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "xor %%ebp, %%ebp\n\t"
        "mov %[argument], %%rdi\n\t"
        "call *%[function]\n\t"
        "hlt\n"
        "1:"
        : "+a"(result)
        : "D"(arguments), "S"(size), [function] "r"(function), [argument] "r"(argument)
        : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long call __asm__("x8") = SYS_clone3;
    register long first __asm__("x0") = reinterpret_cast<long>(arguments);
    register long second __asm__("x1") = static_cast<long>(size);
    __asm__ volatile(
        "svc #0\n\t"
        "cbnz x0, 1f\n\t"
        "mov x29, xzr\n\t"
        "mov x0, %[argument]\n\t"
        "blr %[function]\n\t"
        "brk #1\n"
        "1:"
        : "+r"(first)
        : "r"(call), "r"(second), [function] "r"(function), [argument] "r"(argument)
        : "memory");
    return first;
#endif
}

// The kernel's sigset_t: one bit for each of its 64 signals.
constexpr long kKernelSignals = 64;
constexpr long kKernelSigsetBytes = 8;

}  // namespace mosaic::process
