#include "sandbox/binds.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/assert.h"

namespace mosaic::sandbox {
namespace {

Bind read_only(const std::string& path, const char* reason) {
    return Bind{.kind = BindKind::read_only, .source = path, .dest = path, .reason = reason};
}

Bind read_write(const std::string& path, const char* reason) {
    return Bind{.kind = BindKind::read_write, .source = path, .dest = path, .reason = reason};
}

const char* reason_of(const std::string& entry) {
    if (entry == "/usr") {
        return "this machine's programs and libraries";
    }
    if (entry == "/etc") {
        return "this machine's settings: users, name resolution, certificates";
    }
    return "programs and libraries, as this machine lays them out";
}

// The bind that decides what is seen at `dest` when `self` isn't there: the deepest of the others
// that holds it. Null when it is the empty root.
const Bind* holder_of(const std::vector<Bind>& list, const Bind& self) {
    const Bind* best = nullptr;
    for (const Bind& other : list) {
        const bool holds = &other != &self && other.kind != BindKind::remount_read_only &&
                           other.dest != self.dest && lies_in(self.dest, other.dest);
        if (holds && (best == nullptr || depth_of(other.dest) >= depth_of(best->dest))) {
            best = &other;
        }
    }
    return best;
}

// Whether it shows a place of the host at its own path.
bool is_identity(const Bind& bind) {
    switch (bind.kind) {
        case BindKind::read_only:
        case BindKind::read_write:
        case BindKind::read_only_fd:
        case BindKind::read_write_fd:
            return bind.source == bind.dest;
        case BindKind::symlink:
        case BindKind::directory:
        case BindKind::device:
        case BindKind::proc:
        case BindKind::tmpfs:
        case BindKind::remount_read_only:
            return false;
    }
    return false;
}

// Whether the list shows the same without it: a read-only bind at its own path below another such
// one, which brings submounts too; a link of the host where the host's own directory is shown,
// which already holds it (making it again would fail).
bool is_brought(const std::vector<Bind>& list, const Bind& bind) {
    const bool plain = bind.kind == BindKind::read_only && is_identity(bind);
    if (!plain && bind.kind != BindKind::symlink) {
        return false;
    }
    const Bind* holder = holder_of(list, bind);
    if (holder == nullptr || !is_identity(*holder)) {
        return false;
    }
    return bind.kind == BindKind::symlink || holder->kind == BindKind::read_only;
}

bool same_but_reason(const Bind& a, const Bind& b) {
    Bind plain = a;
    plain.reason = b.reason;
    return plain == b;
}

std::vector<Bind> thinned(const std::vector<Bind>& list) {
    std::vector<Bind> out;
    out.reserve(list.size());
    for (const Bind& bind : list) {
        const bool again = std::any_of(
            out.begin(), out.end(), [&](const Bind& b) { return same_but_reason(b, bind); });
        if (!again && !is_brought(list, bind)) {
            out.push_back(bind);
        }
    }
    return out;
}

std::string octal(mode_t mode) {
    std::array<char, 16> text{};
    const int n = std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode));
    return std::string(text.data(), static_cast<size_t>(n));
}

void append_bind(std::vector<std::string>& argv, const Bind& bind) {
    switch (bind.kind) {
        case BindKind::read_only:
            argv.insert(argv.end(), {"--ro-bind", bind.source, bind.dest});
            return;
        case BindKind::read_write:
            argv.insert(argv.end(), {"--bind", bind.source, bind.dest});
            return;
        case BindKind::read_only_fd:
            argv.insert(argv.end(), {"--ro-bind-fd", std::to_string(bind.fd), bind.dest});
            return;
        case BindKind::read_write_fd:
            argv.insert(argv.end(), {"--bind-fd", std::to_string(bind.fd), bind.dest});
            return;
        case BindKind::symlink:
            argv.insert(argv.end(), {"--symlink", bind.source, bind.dest});
            return;
        case BindKind::directory:
            argv.insert(argv.end(), {"--dir", bind.dest});
            return;
        case BindKind::device:
            argv.insert(argv.end(), {"--dev", bind.dest});
            return;
        case BindKind::proc:
            argv.insert(argv.end(), {"--proc", bind.dest});
            return;
        case BindKind::tmpfs:
            if (bind.bytes > 0) {
                argv.insert(argv.end(), {"--size", std::to_string(bind.bytes)});
            }
            argv.insert(argv.end(), {"--perms", octal(bind.mode), "--tmpfs", bind.dest});
            return;
        case BindKind::remount_read_only:
            argv.insert(argv.end(), {"--remount-ro", bind.dest});
            return;
    }
    MOSAIC_ASSERT(false);
}

}  // namespace

std::vector<Bind> system_binds(const Layout& layout, int64_t shm_bytes) {
    std::vector<Bind> out;
    for (const Entry& entry : layout.entries) {
        switch (entry.kind) {
            case EntryKind::absent:
                break;
            case EntryKind::link:
                out.push_back(Bind{.kind = BindKind::symlink,
                                   .source = entry.target,
                                   .dest = entry.path,
                                   .reason = reason_of(entry.path)});
                break;
            case EntryKind::directory:
                out.push_back(read_only(entry.path, reason_of(entry.path)));
                break;
        }
    }
    out.push_back(Bind{.kind = BindKind::proc,
                       .dest = "/proc",
                       .reason = "the session's own processes, and no others"});
    out.push_back(
        Bind{.kind = BindKind::device,
             .dest = "/dev",
             .reason = "null, zero, full, random, urandom, tty and terminals of its own"});
    out.push_back(Bind{.kind = BindKind::tmpfs,
                       .dest = "/dev/shm",
                       .reason = "the session's own shared memory, bounded",
                       .bytes = shm_bytes,
                       .mode = 01777});
    out.push_back(Bind{.kind = BindKind::remount_read_only,
                       .dest = "/dev",
                       .reason = "else it is a writable file system in memory"});
    out.push_back(Bind{.kind = BindKind::remount_read_only,
                       .dest = "/",
                       .reason = "nothing is written beside the mounts"});
    return out;
}

std::vector<Bind> in_mount_order(std::vector<Bind> list) {
    for (Bind& bind : list) {
        MOSAIC_ASSERT(bind.dest.starts_with('/'));
        bind.dest = tidy_path(bind.dest);
        if (bind.kind == BindKind::read_only || bind.kind == BindKind::read_write) {
            bind.source = tidy_path(bind.source);
        }
    }
    std::vector<Bind> out = thinned(list);
    // Remounts come after everything; among them the deepest first, so that "/" is the last.
    std::stable_sort(out.begin(), out.end(), [](const Bind& a, const Bind& b) {
        const bool a_last = a.kind == BindKind::remount_read_only;
        const bool b_last = b.kind == BindKind::remount_read_only;
        if (a_last != b_last) {
            return b_last;
        }
        return a_last ? depth_of(a.dest) > depth_of(b.dest) : depth_of(a.dest) < depth_of(b.dest);
    });
    return out;
}

std::vector<Bind> binds(const SandboxSpec& spec) {
    // First, so that it hides the host's /tmp and not what else lies there.
    std::vector<Bind> list{Bind{.kind = BindKind::read_write,
                                .source = spec.run_dir + "/rw/tmp",
                                .dest = "/tmp",
                                .reason = "the session's own /tmp, kept in its run directory"}};
    const std::vector<Bind> system = system_binds(spec.layout, spec.shm_bytes);
    list.insert(list.end(), system.begin(), system.end());
    list.insert(list.end(), spec.layout.outside.begin(), spec.layout.outside.end());
    list.push_back(Bind{.kind = BindKind::read_only,
                        .source = spec.stage_dir,
                        .dest = kStagePath,
                        .reason = "the runner, the harness module's files and its adapter"});
    list.push_back(read_only(spec.run_dir, "what the host wrote for this run"));
    list.push_back(read_write(spec.run_dir + "/rw", "what the session writes of its run"));
    const std::string& inside =
        spec.workspace_inside.empty() ? spec.workspace : spec.workspace_inside;
    list.push_back(Bind{.kind = BindKind::read_write_fd,
                        .source = spec.workspace,
                        .dest = inside,
                        .reason = "the workspace",
                        .fd = spec.workspace_fd});
    list.push_back(read_only(spec.bus_socket, "the broker: the role's claim and its messages"));
    if (!spec.launch_socket.empty()) {
        list.push_back(read_only(spec.launch_socket, "this role may launch others"));
    }
    if (!spec.thread_store.empty()) {
        list.push_back(read_write(spec.thread_store, "the thread's memory across its runs"));
    }
    list.insert(list.end(), spec.extra.begin(), spec.extra.end());
    return in_mount_order(std::move(list));
}

std::vector<std::string> bwrap_argv(const BwrapOptions& options,
                                    const std::vector<Bind>& list,
                                    const std::vector<std::string>& command) {
    // None of the namespaces is one of bwrap's "-try" kinds: those go on without it where the
    // kernel has none, and a session that is less confined than it says must not start.
    std::vector<std::string> argv{options.bwrap,
                                  "--unshare-user",
                                  "--unshare-pid",
                                  "--unshare-ipc",
                                  "--unshare-uts",
                                  "--unshare-cgroup",
                                  "--as-pid-1",
                                  "--cap-drop",
                                  "ALL"};
    if (!options.nested) {
        argv.emplace_back("--disable-userns");
    } else {
        // In the session's user namespace alone, and for the runner's first moments: it bounds the
        // namespaces that may be made there, then gives them up (runner/namespace_limits.h).
        argv.insert(argv.end(), {"--cap-add", "CAP_SYS_RESOURCE", "--cap-add", "CAP_SETPCAP"});
    }
    if (options.network_none) {
        argv.emplace_back("--unshare-net");
    }
    argv.insert(argv.end(), {"--json-status-fd", std::to_string(kStatusFd)});
    if (options.seccomp_fd >= 0) {
        argv.insert(argv.end(), {"--seccomp", std::to_string(options.seccomp_fd)});
    }
    for (const Bind& bind : list) {
        append_bind(argv, bind);
        // Else a session could lower the score by which it goes first when memory runs out.
        // Sandboxes inside have to write to it: the ids of their namespaces. At once, because
        // bwrap's work for each bind and remount grows with the mounts that are there.
        if (bind.kind == BindKind::proc && !options.nested) {
            argv.insert(argv.end(), {"--remount-ro", bind.dest});
        }
    }
    // More arguments are read from it up to its end, before anything is done; there are none.
    if (options.gate_fd >= 0) {
        argv.insert(argv.end(), {"--args", std::to_string(options.gate_fd)});
    }
    argv.insert(argv.end(), {"--chdir", options.directory, "--"});
    argv.insert(argv.end(), command.begin(), command.end());
    return argv;
}

std::vector<std::string> runner_command(const std::string& run_dir) {
    return {kRunnerPath, run_dir};
}

}  // namespace mosaic::sandbox
