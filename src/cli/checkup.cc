#include "cli/checkup.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "cli/output.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

std::string_view status_of(Health health) {
    switch (health) {
        case Health::fine:
            return "ok";
        case Health::weaker:
            return "weaker";
        case Health::refuses:
            return "refuses";
    }
    return "";
}

std::string trim(std::string_view text) {
    const size_t end = text.find_last_not_of(" \n\t");
    return std::string(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

std::string first_line(std::string_view text) {
    return std::string(text.substr(0, text.find('\n')));
}

std::string ring_remedy(int sys, std::string_view disabled) {
    if (sys == ENOSYS) {
        return "run a kernel with CONFIG_IO_URING; in a container, its seccomp profile must allow "
               "io_uring_setup";
    }
    if (trim(disabled) == "2" || trim(disabled) == "1") {
        return "sysctl kernel.io_uring_disabled=0 (1 allows it to the group of "
               "kernel.io_uring_group only)";
    }
    if (sys == ENOMEM) {
        return "raise the limit of locked memory (ulimit -l, or LimitMEMLOCK of the service)";
    }
    return "a container's seccomp profile or a security module forbids io_uring_setup: allow it";
}

}  // namespace

int exit_code_for(const std::vector<Finding>& findings) {
    const bool refuses = std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
        return f.health == Health::refuses;
    });
    return refuses ? exit_code::kRefused : exit_code::kFine;
}

std::string checkup_text(const std::vector<Finding>& findings,
                         const std::vector<std::string>& notes) {
    size_t width = 0;
    for (const Finding& finding : findings) {
        width = std::max(width, finding.name.size());
    }
    std::string out;
    for (const Finding& finding : findings) {
        std::string head(status_of(finding.health));
        head.resize(9, ' ');
        std::string name = finding.name;
        name.resize(width + 2, ' ');
        out += head + name + one_line(finding.detail) + "\n";
        if (!finding.remedy.empty()) {
            out += std::string(9 + width + 2, ' ') + "-> " + one_line(finding.remedy) + "\n";
        }
    }
    for (const std::string& note : notes) {
        out += "note     " + one_line(note) + "\n";
    }
    return out;
}

json::Value checkup_value(const std::vector<Finding>& findings,
                          const std::vector<std::string>& notes) {
    json::Array checks;
    for (const Finding& finding : findings) {
        json::Value check;
        check.set("name", finding.name);
        check.set("status", status_of(finding.health));
        check.set("detail", finding.detail);
        if (!finding.remedy.empty()) {
            check.set("remedy", finding.remedy);
        }
        checks.push_back(std::move(check));
    }
    json::Array texts;
    for (const std::string& note : notes) {
        texts.emplace_back(note);
    }
    json::Value out;
    out.set("ok", exit_code_for(findings) == exit_code::kFine);
    out.set("checks", json::Value(std::move(checks)));
    out.set("notes", json::Value(std::move(texts)));
    return out;
}

Finding judge_kernel(std::string_view release) {
    Finding out{"kernel", Health::fine, "Linux " + std::string(release), ""};
    int major = 0;
    int minor = 0;
    // NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
    if (std::sscanf(std::string(release).c_str(), "%d.%d", &major, &minor) != 2) {
        out.health = Health::weaker;
        out.remedy = "its version can't be read; 6.1 or later is expected";
    } else if (major < 5 || (major == 5 && minor < 15)) {
        out.health = Health::refuses;
        out.remedy = "run Linux 6.1 or later; before 5.15 io_uring lacks what the host needs";
    } else if (major == 5) {
        out.health = Health::weaker;
        out.remedy = "run Linux 6.1 or later: the host's loop is slower before";
    }
    return out;
}

Finding judge_io_uring(int sys, std::string_view disabled) {
    if (sys == 0) {
        return {"io_uring", Health::fine, "a ring can be made", ""};
    }
    std::string detail = "io_uring_setup: " + errno_text(sys);
    if (!disabled.empty()) {
        detail += " (kernel.io_uring_disabled is " + trim(disabled) + ")";
    }
    return {"io_uring", Health::refuses, detail, ring_remedy(sys, disabled)};
}

Finding judge_namespaces(const NamespaceSysctls& sysctls) {
    Finding out{"user namespaces", Health::fine, "no sysctl forbids them", ""};
    if (trim(sysctls.max_user_namespaces) == "0") {
        out = {out.name,
               Health::refuses,
               "user.max_user_namespaces is 0",
               "sysctl user.max_user_namespaces=15000"};
    } else if (trim(sysctls.userns_clone) == "0") {
        out = {out.name,
               Health::refuses,
               "kernel.unprivileged_userns_clone is 0",
               "sysctl kernel.unprivileged_userns_clone=1"};
    } else if (trim(sysctls.apparmor) == "1") {
        // bwrap may have a profile that allows it: the sandbox probe tells.
        out = {out.name,
               Health::weaker,
               "kernel.apparmor_restrict_unprivileged_userns is 1",
               "bwrap needs an AppArmor profile with 'userns,', or the sysctl set to 0"};
    }
    return out;
}

Finding judge_level(const sandbox::Level& level) {
    return {level.name, level.on ? Health::fine : Health::weaker, level.reason, level.remedy};
}

Finding judge_bwrap(const std::string& path, std::string_view version, std::string_view help) {
    Finding out{"bwrap", Health::fine, path + ": " + trim(first_line(version)), ""};
    for (const std::string_view option : {"--bind-fd", "--disable-userns", "--json-status-fd"}) {
        if (help.find(option) == std::string_view::npos) {
            out.health = Health::refuses;
            out.detail += " has no " + std::string(option);
            out.remedy = "install bubblewrap 0.10.0 or later (Debian 12: 0.8.0-2+deb12u1 or later)";
            break;
        }
    }
    return out;
}

}  // namespace mosaic::cli
