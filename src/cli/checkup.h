#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/hardening.h"
#include "wire/json.h"

// What `mosaic doctor` found: pure values and their texts. doctor.cc finds them.

namespace mosaic::cli {

enum class Health {
    fine,
    weaker,   // launches work, with less protection or speed: says what
    refuses,  // a launch, or the host's start, would be refused
};

struct Finding {
    std::string name;  // "kernel", "bwrap"
    Health health = Health::fine;
    std::string detail;
    std::string remedy;  // one line, for what isn't fine
};

// Exit code 3 when anything refuses, else 0.
[[nodiscard]] int exit_code_for(const std::vector<Finding>& findings);

// Aligned lines; remedies stand below what they are for.
[[nodiscard]] std::string checkup_text(const std::vector<Finding>& findings,
                                       const std::vector<std::string>& notes);

// {"ok":…,"checks":[{"name","status":"ok"|"weaker"|"refuses","detail","remedy"?}],"notes":[…]}
[[nodiscard]] json::Value checkup_value(const std::vector<Finding>& findings,
                                        const std::vector<std::string>& notes);

// ---- judgements, each pure over what was read ----

// `release` as uname(2) has it.
[[nodiscard]] Finding judge_kernel(std::string_view release);

// `sys` is 0 when a ring could be made, else the errno; `disabled` is the content of
// /proc/sys/kernel/io_uring_disabled, empty when there is none.
[[nodiscard]] Finding judge_io_uring(int sys, std::string_view disabled);

// The content of the three sysctls, empty where there is none.
struct NamespaceSysctls {
    std::string max_user_namespaces;  // /proc/sys/user/
    std::string userns_clone;         // /proc/sys/kernel/unprivileged_userns_clone
    std::string apparmor;             // /proc/sys/kernel/apparmor_restrict_unprivileged_userns
};

[[nodiscard]] Finding judge_namespaces(const NamespaceSysctls& sysctls);

// A level that is off makes sessions weaker and refuses nothing.
[[nodiscard]] Finding judge_level(const sandbox::Level& level);

// What `bwrap --version` and `bwrap --help` printed.
[[nodiscard]] Finding judge_bwrap(const std::string& path,
                                  std::string_view version,
                                  std::string_view help);

}  // namespace mosaic::cli
