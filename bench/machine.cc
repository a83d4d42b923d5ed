#include "bench/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/unique_fd.h"
#include "bench/command.h"
#include "process/files.h"

namespace mosaic::bench {
namespace {

constexpr const char* kBwrap = "/usr/bin/bwrap";
constexpr const char* kSetpriv = "/usr/bin/setpriv";

// Files of /proc say that they are empty, so the reader of real files can't take them.
std::string read_proc(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string out;
    std::array<char, 16384> buffer{};
    ssize_t n = 0;
    while (fd.valid() && (n = ::read(fd.get(), buffer.data(), buffer.size())) > 0) {
        out.append(buffer.data(), static_cast<size_t>(n));
    }
    return out;
}

// What follows "<name>:" on its line, without the white space around it.
std::string field(const std::string& text, const std::string& name) {
    size_t at = text.starts_with(name) ? 0 : text.find("\n" + name);
    if (at == std::string::npos) {
        return "";
    }
    at = text.find(':', at) + 1;
    const size_t end = text.find('\n', at);
    at = text.find_first_not_of(" \t", at);
    return at == std::string::npos ? "" : text.substr(at, end - at);
}

int64_t leading_number(const std::string& text) {
    int64_t out = 0;
    std::from_chars(text.data(), text.data() + text.size(), out);
    return out;
}

std::string first_line(std::string text) {
    text.erase(std::min(text.find('\n'), text.size()));
    return text;
}

std::string file_system(const std::string& path) {
    struct statfs facts {};

    if (::statfs(path.c_str(), &facts) != 0) {
        return "unknown";
    }
    switch (static_cast<unsigned long>(facts.f_type)) {
        case 0xEF53:
            return "ext4";
        case 0x58465342:
            return "xfs";
        case 0x9123683E:
            return "btrfs";
        case 0x794C7630:
            return "overlayfs";
        case 0x01021994:
            return "tmpfs";
        case 0x2FC12FC1:
            return "zfs";
        default:
            break;
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "type 0x%lx", static_cast<unsigned long>(facts.f_type));
    return text.data();
}

}  // namespace

std::string load_average() {
    const std::string text = read_proc("/proc/loadavg");
    size_t end = 0;
    for (int i = 0; i < 3 && end != std::string::npos; ++i) {
        end = text.find(' ', end + 1);
    }
    return text.substr(0, end);
}

Result<int64_t> memory_kib(const std::string& name) {
    const std::string text = field(read_proc("/proc/meminfo"), name);
    if (text.empty()) {
        return fail(Code::missing, "/proc/meminfo: no " + name);
    }
    return leading_number(text);
}

int64_t process_kib(pid_t pid, const std::string& name) {
    return leading_number(field(read_proc("/proc/" + std::to_string(pid) + "/status"), name));
}

std::string node_version(const std::string& node) {
    const Finished said = run_command({node, "--version"});
    return said.fine ? first_line(said.out) : "";
}

std::map<std::string, int64_t> sleeps_of(pid_t pid) {
    std::map<std::string, int64_t> out;
    std::error_code error;
    const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
        const std::string status = read_proc(task.path().string() + "/status");
        out[task.path().filename().string()] =
            leading_number(field(status, "voluntary_ctxt_switches"));
    }
    return out;
}

json::Value machine_facts(const std::string& scratch_root) {
    utsname name{};
    ::uname(&name);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    ::sched_getaffinity(0, sizeof(cores), &cores);
    const std::string mounts = read_proc("/proc/self/mountinfo");
    const int64_t memory = memory_kib("MemTotal").value_or(0);
    json::Value out;
    out.set("kernel", std::string(name.release));
    out.set("processor", field(read_proc("/proc/cpuinfo"), "model name"));
    out.set("cores", static_cast<int64_t>(CPU_COUNT(&cores)));
    out.set("memoryMiB", memory / 1024);
    out.set("bwrap", first_line(run_command({kBwrap, "--version"}).out));
    out.set("fileSystem", file_system(scratch_root));
    out.set("mounts", static_cast<int64_t>(std::count(mounts.begin(), mounts.end(), '\n')));
    out.set("mosaic", std::string(MOSAIC_VERSION ", " MOSAIC_BUILD_TYPE));
    out.set("load", load_average());
    return out;
}

std::string why_not_here() {
    if (::geteuid() == 0) {
        return "started as root, and sessions never run as root: use tools/bench, which becomes an "
               "ordinary user";
    }
    if (::access(kBwrap, X_OK) != 0) {
        return std::string(kBwrap) + " is missing";
    }
    if (::access(kSetpriv, X_OK) != 0) {
        return std::string(kSetpriv) + " is missing (package util-linux)";
    }
    const Finished probe =
        run_command({kBwrap, "--unshare-all", "--as-pid-1", "--ro-bind", "/", "/", "/bin/true"});
    return probe.fine ? "" : "bwrap can't make a sandbox here: " + first_line(probe.out);
}

}  // namespace mosaic::bench
