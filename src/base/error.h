#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

// How failures travel. Three kinds that are never mixed: a refusal is an answer to a caller and has
// a wire code (wire/codes.h); an Error is an operation that failed, described here; an assertion is
// our own bug (assert.h). No exception leaves a room; running out of memory aborts.

namespace mosaic {

// What a caller can do about an Error. The text says what happened in words for a person.
enum class Code {
    invalid,      // bytes, a field or an argument that does not have the documented form
    too_large,    // past a limit of wire/limits.h
    missing,      // the named thing does not exist
    unsafe,       // exists, but its owner, mode, kind or place makes using it unsafe
    held,         // somebody else has it (a lock, a role)
    unavailable,  // a peer, a program or a kernel feature is not there
    corrupt,      // a file of ours does not have the form we wrote
    system,       // a system call failed; `sys` is its errno
};

struct Error {
    Code code = Code::system;
    int sys = 0;       // errno, 0 when no system call failed
    std::string text;  // a sentence without a final full stop; names the file, field or byte
};

template <class T>
using Result = tl::expected<T, Error>;

// Builds the unexpected side of a Result.
[[nodiscard]] tl::unexpected<Error> fail(Code code, std::string text);

// The same for a failed system call: "<what>: <strerror(sys)>".
[[nodiscard]] tl::unexpected<Error> fail_sys(int sys, std::string_view what);

// The text of an errno, for example "No such file or directory".
[[nodiscard]] std::string errno_text(int sys);

// Drops a result on purpose; `why` is for the reader.
template <class T>
void ignore(T&& /*result*/, const char* /*why*/) {}

}  // namespace mosaic

// Returns the error of `expression` from the enclosing function, or goes on.
#define MOSAIC_TRY(expression)                                                              \
    do {                                                                                    \
        auto mosaic_try_result = (expression);                                              \
        if (!mosaic_try_result) {                                                           \
            return ::tl::unexpected<::mosaic::Error>(std::move(mosaic_try_result.error())); \
        }                                                                                   \
    } while (false)

// The same, and assigns the value: MOSAIC_TRY_ASSIGN(auto fd, open_it()).
#define MOSAIC_TRY_JOIN2(a, b) a##b
#define MOSAIC_TRY_JOIN(a, b) MOSAIC_TRY_JOIN2(a, b)
#define MOSAIC_TRY_ASSIGN(target, expression)                           \
    auto MOSAIC_TRY_JOIN(mosaic_try_, __LINE__) = (expression);         \
    if (!MOSAIC_TRY_JOIN(mosaic_try_, __LINE__)) {                      \
        return ::tl::unexpected<::mosaic::Error>(                       \
            std::move(MOSAIC_TRY_JOIN(mosaic_try_, __LINE__).error())); \
    }                                                                   \
    target = std::move(*MOSAIC_TRY_JOIN(mosaic_try_, __LINE__)) /* NOLINT: may be a declaration */
