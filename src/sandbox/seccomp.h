#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// The filter of system calls that bubblewrap loads last, just before it executes the runner: it
// holds for the runner and everything below it, and can't be taken off. It is a list of what is
// refused; all else is allowed, ptrace(2) included, which sanitizers and debuggers need.

namespace mosaic::sandbox {

// One argument of a call: it has this value in these bits.
struct SeccompCondition {
    unsigned argument = 0;
    uint64_t mask = 0;
    uint64_t value = 0;

    bool operator==(const SeccompCondition&) const = default;
};

struct SeccompRule {
    std::string_view group;  // what it is about, in words; rules of one group stand together
    int call = 0;            // the number of the system call
    int answer = 0;          // the errno that the caller gets: EPERM or ENOSYS
    std::vector<SeccompCondition> conditions{};  // all must hold; none: any call

    bool operator==(const SeccompRule&) const = default;
};

struct SeccompFilter {
    std::vector<SeccompRule> rules;
    // Calls by another ABI than the machine's own (i386, x32) get ENOSYS: rules name calls by the
    // numbers of one ABI, so that another one would be the way around all of them.
    bool foreign_refused = true;
};

// What a session may not call. `nested`: sandboxes inside are wanted, so user namespaces and what
// builds a file system in one (mount, umount2, pivot_root) stay allowed.
[[nodiscard]] SeccompFilter session_filter(bool nested);

// As the bytes of a BPF program for bubblewrap's --seccomp.
[[nodiscard]] Result<std::string> seccomp_program(const SeccompFilter& filter);

// A sealed file in memory with the program. Made once; a launch uses open_program.
[[nodiscard]] Result<UniqueFd> program_file(std::string_view program);

// The file opened anew, for one launch: bubblewrap reads from where the descriptor stands to the
// end, so a descriptor that is shared would be at its end for the second one.
[[nodiscard]] Result<UniqueFd> open_program(int file);

}  // namespace mosaic::sandbox
