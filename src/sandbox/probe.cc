#include "sandbox/probe.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "base/file_time.h"

namespace mosaic::sandbox {
namespace {

// Where the stand-in workspace of the probe lies inside.
constexpr const char* kProbeWorkspace = "/run/mosaic-probe";

constexpr int64_t kProbeTmpBytes = int64_t{64} * 1024;

constexpr const char* kInstall =
    "install bubblewrap (Debian and Ubuntu: apt install bubblewrap; 0.10.0, or Debian 12's "
    "0.8.0-2+deb12u1, at least), or set sandbox.bwrap to where it is";
constexpr const char* kUpgrade =
    "install bubblewrap 0.10.0 or later (Debian 12: 0.8.0-2+deb12u1 or later): --bind-fd and "
    "--disable-userns are needed";
constexpr const char* kAppArmor =
    "unprivileged user namespaces are restricted, as Ubuntu 24.04 does by AppArmor: give bwrap an "
    "AppArmor profile that has 'userns,', or run sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0";
constexpr const char* kUserns =
    "allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap (Ubuntu "
    "24.04); "
    "in a container its seccomp profile must allow them too";
constexpr const char* kUsernsLimit =
    "the limit of namespaces is reached (this is not about disk space): raise sysctl "
    "user.max_user_namespaces, which 0 switches off, and its siblings user.max_*_namespaces";
constexpr const char* kNoUserns =
    "this kernel has no user namespaces: one with CONFIG_USER_NS is needed";
constexpr const char* kNoCgroupNs =
    "this kernel has no cgroup namespaces: one with CONFIG_CGROUPS is needed";
constexpr const char* kMaskedProc =
    "a container around this host masks parts of /proc: start it with an unmasked /proc (Docker: "
    "--security-opt systempaths=unconfined; Kubernetes: procMount: Unmasked)";
constexpr const char* kSetuid =
    "bwrap is installed setuid: remove that bit (chmod u-s), sessions need user namespaces anyway";
constexpr const char* kNoSeccomp =
    "this kernel has no seccomp filters: one with CONFIG_SECCOMP_FILTER is needed";
constexpr const char* kProcesses =
    "too many processes: raise the user's limit (ulimit -u, or TasksMax of the service)";
constexpr const char* kFiles =
    "too many open files: raise the limit (ulimit -n, or LimitNOFILE of the service)";
constexpr const char* kMemory = "too little memory is free";
constexpr const char* kRamfsRoot =
    "the root file system is the initial RAM disk, which can't be pivoted from: switch to a real "
    "one";

struct Remedy {
    std::string_view needle;  // part of bwrap's message
    const char* text;
};

// The first that is found counts.
constexpr std::array<Remedy, 17> kRemedies = {{
    {"Unknown option", kUpgrade},
    {"nesting depth or /proc/sys/user/max_", kUsernsLimit},
    {"unshare user ns: No space left on device", kUsernsLimit},
    {"No permissions to creat", kUserns},
    {"setting up uid map: ", kAppArmor},
    {"loopback: ", kAppArmor},
    {"does not support user namespaces", kNoUserns},
    {"cgroup namespace because the kernel does not support", kNoCgroupNs},
    {"not permitted in setuid mode", kSetuid},
    {"--disable-userns requires --unshare-user", kSetuid},
    {"Can't mount proc on", kMaskedProc},
    {"PR_SET_SECCOMP", kNoSeccomp},
    {"Resource temporarily unavailable", kProcesses},
    {"pivot_root: Invalid argument", kRamfsRoot},
    {"Failed to make / slave: ", kAppArmor},
    {"Creating new namespace failed: Operation not permitted", kUserns},
    {"open /proc/", kMaskedProc},
}};

}  // namespace

Result<FileIdentity> identity_of(const std::string& path) {
    struct stat facts {};

    if (::stat(path.c_str(), &facts) != 0) {
        const int sys = errno;
        if (sys == ENOENT || sys == ENOTDIR) {
            return fail(Code::missing, path + " is missing");
        }
        return fail_sys(sys, path);
    }
    if (!S_ISREG(facts.st_mode) || (facts.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0) {
        return fail(Code::unsafe, path + " is not an executable file");
    }
    return FileIdentity{facts.st_dev,
                        facts.st_ino,
                        facts.st_size,
                        file_time_ns(facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec)};
}

std::vector<std::string> probe_argv(const ProbeSpec& spec) {
    // Stands for rw/tmp of a run: the self-test wants a /tmp that it can write.
    std::vector<Bind> list{Bind{.kind = BindKind::tmpfs,
                                .dest = "/tmp",
                                .reason = "stands for the session's own /tmp",
                                .bytes = kProbeTmpBytes,
                                .mode = 0700}};
    const std::vector<Bind> system = system_binds(spec.layout, spec.shm_bytes);
    list.insert(list.end(), system.begin(), system.end());
    list.insert(list.end(), spec.layout.outside.begin(), spec.layout.outside.end());
    list.push_back(Bind{.kind = BindKind::read_only,
                        .source = spec.stage_dir,
                        .dest = kStagePath,
                        .reason = "the runner"});
    list.push_back(Bind{.kind = BindKind::read_write_fd,
                        .source = spec.stage_dir,
                        .dest = kProbeWorkspace,
                        .reason = "stands for a workspace",
                        .fd = kWorkspaceFd});
    BwrapOptions options = spec.options;
    options.directory = "/";
    return bwrap_argv(options, in_mount_order(std::move(list)), {kRunnerPath, "self-test"});
}

std::string remedy_for(std::string_view error_line) {
    for (const Remedy& remedy : kRemedies) {
        if (error_line.find(remedy.needle) != std::string_view::npos) {
            return remedy.text;
        }
    }
    return "";
}

Unavailable explain_exec(const std::string& bwrap, int sys) {
    if (sys == ENOENT || sys == ENOTDIR) {
        return Unavailable{bwrap + " is missing", kInstall};
    }
    const char* remedy = kInstall;
    if (sys == EAGAIN) {
        remedy = kProcesses;
    } else if (sys == EMFILE || sys == ENFILE) {
        remedy = kFiles;
    } else if (sys == ENOMEM) {
        remedy = kMemory;
    }
    return Unavailable{bwrap + " failed: " + errno_text(sys), remedy};
}

Unavailable explain(const std::string& bwrap,
                    const process::Exit& exit,
                    std::string_view error_line) {
    if (!error_line.empty()) {
        return Unavailable{bwrap + " failed: " + std::string(error_line), remedy_for(error_line)};
    }
    const std::string how = exit.signal != 0 ? "died of " + process::signal_name(exit.signal)
                                             : "exit " + std::to_string(exit.exit_code);
    return Unavailable{bwrap + " failed: " + how + " without a message", ""};
}

}  // namespace mosaic::sandbox
