#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What a session may and may not do, as shell commands with their exact output. The table needs
// nothing but a shell, coreutils and util-linux inside, and one program that makes system calls, so
// that it serves both a shell that stands in for the runner and a turn of a real session.
// runner_table() needs the real runner as pid 1.

namespace mosaic::test {

// Where things lie on the host, and what the test has laid there beforehand.
struct ProbePlaces {
    std::string workspace;        // holds the file "mine" with the line "of the workspace"
    std::string run_dir;          // with session.json, runner.log, bundle/prompt.md and rw/
    std::string data_root;        // with bus-host/{sessions.json,broker.sqlite,admin.sock,bus.sock,
                                  // launch.sock}
    std::string other_run;        // a sibling of run_dir, with session.json
    std::string other_workspace;  // with the file "theirs"
    std::string home;             // the user's, with .ssh/id, .config/mosaic/system.json and
                                  // .claude/settings.json
    std::string host_tmp_file;    // in the host's /tmp
    std::string host_shm_file;    // in the host's /dev/shm
    std::string shm_key;          // of a System V segment, as ipcs(1) prints it: 0x4d6f5361
    std::string host_comm;        // /proc/PID/comm of a process outside
    std::string host_namespaces;  // the host's, separated by spaces: "ipc:[4026531839] ..."
    std::string queue;            // a POSIX message queue of the host: /name
    std::string key;              // number of a key of the host that its user may read
    std::string kept_key;         // name of a key that only those see who have its keyring
    std::string calls;            // probe_calls.cc, built, where a session can run it
    std::string canary;           // a value that the host's environment holds and no session may
    uint32_t uid = 0;             // whom the session runs as
    int64_t shm_bytes = 0;        // size of the session's /dev/shm
    int64_t memory_bytes = 0;     // what its control group allows; 0: nothing bounds it
    bool may_launch = false;      // launch.sock is bound
};

struct Probe {
    std::string name;      // what holds, in words
    std::string script;    // for sh; several lines are fine
    std::string expected;  // its standard output and error, to the byte
};

// One shell word.
inline std::string shell_word(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') {
            out += "'\\''";
        } else {
            out += c;
        }
    }
    return out + "'";
}

// Helpers of the scripts. "try" prints "ok", or the errno text at the end of the command's last
// message; "refused" prints only whether the command failed, for what several layers refuse each in
// its own words; "opens" opens a file for appending and writes nothing.
inline constexpr const char* kProbePreamble = R"sh(LC_ALL=C; export LC_ALL
try() {
    if out=$("$@" 2>&1); then
        echo ok
    else
        printf '%s\n' "$out" | sed -n '$s/.*: //p'
    fi
}
refused() {
    if "$@" >/dev/null 2>&1; then echo allowed; else echo refused; fi
}
opens() {
    try tee -a -- "$1" </dev/null
}
)sh";

namespace detail {

constexpr const char* kAbsent = "No such file or directory\n";
constexpr const char* kReadOnly = "Read-only file system\n";

// How many bytes a file of the host has; 0 when it isn't there.
inline std::string size_of(const std::string& path) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path, none);
    return std::to_string(none ? 0 : size) + "\n";
}

inline void add_machine(std::vector<Probe>& out) {
    const std::vector<std::string> files = {"/etc/resolv.conf",
                                            "/etc/hosts",
                                            "/etc/nsswitch.conf",
                                            "/etc/ssl/certs/ca-certificates.crt"};
    std::string script = "for file in";
    std::string expected;
    for (const std::string& file : files) {
        script += " " + file;
        expected += size_of(file);
    }
    out.push_back({"names are resolved and servers trusted as outside",
                   script + "; do cat $file 2>/dev/null | wc -c; done",
                   expected});
}

inline void add_own(std::vector<Probe>& out, const ProbePlaces& p) {
    const std::string ws = shell_word(p.workspace);
    const std::string rw = shell_word(p.run_dir + "/rw");
    out.push_back({"the workspace is read", "cat -- " + ws + "/mine", "of the workspace\n"});
    out.push_back({"the workspace is written",
                   "echo made >" + ws + "/new && cat -- " + ws + "/new && rm -- " + ws + "/new",
                   "made\n"});
    out.push_back(
        {"the workspace is at its own path", "cd -- " + ws + " && pwd -P", p.workspace + "\n"});
    out.push_back({"/tmp is the run's own",
                   "echo mine >/tmp/probe && cat -- " + rw + "/tmp/probe && rm /tmp/probe",
                   "mine\n"});
    out.push_back({"TMPDIR is /tmp", "echo \"$TMPDIR\"", "/tmp\n"});
    out.push_back({"HOME is the run's own",
                   "printf '%s\\n' \"$HOME\"; try touch -- \"$HOME/probe\"",
                   p.run_dir + "/rw/home\nok\n"});
    out.push_back({"the run's rw is written", "try touch -- " + rw + "/session/probe", "ok\n"});
    out.push_back({"it is an ordinary user", "id -u", std::to_string(p.uid) + "\n"});
    out.push_back({"it has no capability",
                   "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status",
                   "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n"});
    // The second command keeps the shell from becoming ls itself.
    out.push_back({"descriptors are 0, 1 and 2", "ls /proc/$$/fd; :", "0\n1\n2\n"});
    out.push_back(
        {"devices work",
         "echo x >/dev/null; head -c 3 /dev/zero | od -An -tx1; head -c 9 /dev/urandom | wc "
         "-c",
         " 00 00 00\n9\n"});
}

inline void add_hidden(std::vector<Probe>& out, const ProbePlaces& p) {
    const auto absent = [&](const char* name, const std::string& path) {
        out.push_back({name, "try ls -d -- " + shell_word(path), kAbsent});
    };
    absent("the user's ssh keys are hidden", p.home + "/.ssh/id");
    absent("the user's configuration is hidden", p.home + "/.config/mosaic/system.json");
    absent("the user's harness settings are hidden", p.home + "/.claude/settings.json");
    absent("another run is hidden", p.other_run + "/session.json");
    absent("another workspace is hidden", p.other_workspace + "/theirs");
    absent("the record of sessions is hidden", p.data_root + "/bus-host/sessions.json");
    absent("the broker's store is hidden", p.data_root + "/bus-host/broker.sqlite");
    absent("the human's socket is hidden", p.data_root + "/bus-host/admin.sock");
    absent("the host's /tmp is hidden", p.host_tmp_file);
    absent("the host's /dev/shm is hidden", p.host_shm_file);
    absent("/sys is hidden", "/sys");
    absent("/boot is hidden", "/boot");
    absent("/mnt is hidden", "/mnt");
    absent("/srv is hidden", "/srv");
    absent("the system's D-Bus is hidden", "/run/dbus");
    absent("the users' runtime directories are hidden", "/run/user");
    absent("a container engine's socket is hidden", "/var/run/docker.sock");
    absent("there is no device of the memory", "/dev/mem");
    absent("there is no device of the kernel's log", "/dev/kmsg");
    absent("there is no device of virtual machines", "/dev/kvm");
    absent("there is no device of file systems", "/dev/fuse");
    absent("there is no device of tunnels", "/dev/net");
    absent("/var is hidden but for the way to what is bound", "/var/lib");
    out.push_back({"no sibling of the run directory is listed",
                   "ls -A -- " + shell_word(p.run_dir.substr(0, p.run_dir.rfind('/'))),
                   p.run_dir.substr(p.run_dir.rfind('/') + 1) + "\n"});
    out.push_back({"bus.sock is there",
                   "test -S " + shell_word(p.data_root + "/bus-host/bus.sock") + " && echo yes",
                   "yes\n"});
    out.push_back(
        {"launch.sock is there only for who may launch",
         "test -S " + shell_word(p.data_root + "/bus-host/launch.sock") + " && echo yes || echo no",
         p.may_launch ? "yes\n" : "no\n"});
    out.push_back({"shared memory of the host is out of reach",
                   "ipcs -m | grep -c '^" + p.shm_key + "'",
                   "0\n"});
    out.push_back({"processes of the host are out of sight",
                   "cat /proc/[0-9]*/comm 2>/dev/null | grep -cx " + shell_word(p.host_comm),
                   "0\n"});
    out.push_back({"its namespaces are its own",
                   "for kind in cgroup ipc mnt pid user uts; do\n"
                   "    case " +
                       shell_word(" " + p.host_namespaces + " ") +
                       " in\n"
                       "        *\" $(readlink /proc/self/ns/$kind) \"*) echo \"$kind shared\" ;;\n"
                       "        *) echo \"$kind own\" ;;\n"
                       "    esac\n"
                       "done",
                   "cgroup own\nipc own\nmnt own\npid own\nuser own\nuts own\n"});
    out.push_back(
        {"the host's environment stays outside", "env | grep -c " + shell_word(p.canary), "0\n"});
}

inline void add_protected(std::vector<Probe>& out, const ProbePlaces& p) {
    const auto touch = [&](const char* name, const std::string& path) {
        out.push_back({name, "try touch -- " + shell_word(path), kReadOnly});
    };
    const auto opens = [&](const char* name, const std::string& path) {
        out.push_back({name, "opens " + shell_word(path), kReadOnly});
    };
    touch("nothing is written to /", "/probe");
    touch("nothing is written to /etc", "/etc/probe");
    touch("nothing is written to /usr", "/usr/probe");
    touch("nothing is written to the runner's tree", "/run/mosaic/probe");
    touch("nothing is written beside the mounts", "/run/probe");
    touch("nothing is written to /dev", "/dev/probe");
    touch("nothing is written beside rw", p.run_dir + "/probe");
    touch("nothing is added to the bundle", p.run_dir + "/bundle/probe");
    opens("the bundle's prompt can't be changed", p.run_dir + "/bundle/prompt.md");
    opens("session.json can't be changed", p.run_dir + "/session.json");
    opens("the runner's log can't be changed", p.run_dir + "/runner.log");
    opens("that it goes first when memory runs out can't be changed", "/proc/self/oom_score_adj");
    out.push_back({"session.json can't be moved away",
                   "try mv -- " + shell_word(p.run_dir + "/session.json") + " " +
                       shell_word(p.run_dir + "/rw/session.json") + "; rm -f -- " +
                       shell_word(p.run_dir + "/rw/session.json"),
                   kReadOnly});
    out.push_back({"the runner's log can't be linked",
                   "try ln -- " + shell_word(p.run_dir + "/runner.log") + " " +
                       shell_word(p.run_dir + "/rw/log"),
                   "Invalid cross-device link\n"});
    out.push_back({"the runner's program can't be written",
                   "refused tee -a /run/mosaic/mosaic-runner",
                   "refused\n"});
    out.push_back({"the machine can't be asked to restart",
                   "refused tee -a /proc/sysrq-trigger",
                   "refused\n"});
    out.push_back({"the kernel's log can't be read", "refused head -c 1 /proc/kmsg", "refused\n"});
    out.push_back({"kernel settings can't be changed",
                   "refused tee -a /proc/sys/kernel/core_pattern",
                   "refused\n"});
}

inline void add_refused(std::vector<Probe>& out, const ProbePlaces& p) {
    const auto refused = [&](const char* name, const std::string& command) {
        out.push_back({name, "refused " + command, "refused\n"});
    };
    refused("no user namespace can be made", "unshare --user true");
    refused("no mount namespace can be made", "unshare --mount true");
    refused("nothing can be mounted", "mount -t tmpfs none /tmp");
    refused("no control groups can be mounted", "mount -t cgroup2 none /tmp");
    refused("no fresh /proc can be mounted", "mount -t proc none /tmp");
    refused("a read-only mount can't be made writable", "mount -o remount,rw,bind /usr");
    refused("nothing can be unmounted", "umount /run/mosaic");
    refused("no device can be made", "mknod " + shell_word(p.workspace + "/device") + " c 1 3");
    refused("the root can't be changed", "chroot /usr true");
    out.push_back({"/dev/shm is bounded",
                   "try dd if=/dev/zero of=/dev/shm/probe bs=4096 status=none count=" +
                       std::to_string(p.shm_bytes / 4096 + 1) + "; rm -f /dev/shm/probe",
                   "No space left on device\n"});
}

// tail keeps the end of a line until the line ends, and is killed over it; wc counts what comes.
inline Probe memory_probe(int64_t memory_bytes) {
    return {"a session's memory is bounded",
            "(head -c " + std::to_string(2 * memory_bytes) +
                " /dev/zero | tail -n 1 | wc -c) 2>/dev/null",
            "0\n"};
}

// "NAME ERRNO" of each name, one a line.
inline std::string all_answer(const std::vector<const char*>& names, const char* answer) {
    std::string out;
    for (const char* name : names) {
        out += std::string(name) + " " + answer + "\n";
    }
    return out;
}

inline void add_calls(std::vector<Probe>& out, const ProbePlaces& p) {
    const std::string calls = shell_word(p.calls) + " ";
    out.push_back({"no call makes a user namespace or enters one",
                   calls + "namespaces",
                   "clone3 ENOSYS\n" + all_answer({"clone",
                                                   "clone, a bit above",
                                                   "clone, with more",
                                                   "unshare",
                                                   "unshare, a bit above",
                                                   "setns"},
                                                  "EPERM")});
    out.push_back({"no call of mounts is let through",
                   calls + "mounts",
                   all_answer({"mount",
                               "umount2",
                               "pivot_root",
                               "move_mount",
                               "open_tree",
                               "fsopen",
                               "fsconfig",
                               "fsmount",
                               "fspick",
                               "mount_setattr",
                               "open_tree_attr",
                               "statmount",
                               "listmount"},
                              "EPERM")});
    out.push_back({"no call of keyrings is let through",
                   calls + "keys",
                   all_answer({"keyctl", "add_key", "request_key"}, "EPERM")});
    out.push_back(
        {"a key of the host can't be read", calls + "read-key " + p.key, "keyctl EPERM\n"});
    out.push_back({"the host's keyring isn't inherited",
                   "grep -c " + shell_word(p.kept_key) + " /proc/keys",
                   "0\n"});
    out.push_back({"nothing is loaded into the kernel, and its log not read",
                   calls + "kernel",
                   all_answer({"bpf",
                               "perf_event_open",
                               "userfaultfd",
                               "kexec_load",
                               "kexec_file_load",
                               "init_module",
                               "finit_module",
                               "delete_module",
                               "syslog"},
                              "EPERM")});
    out.push_back({"security modules aren't asked",
                   calls + "modules",
                   all_answer({"get", "set", "list"}, "EPERM")});
    out.push_back({"there is no io_uring",
                   calls + "rings",
                   all_answer({"setup", "enter", "register"}, "ENOSYS")});
    out.push_back(
        {"there is no other ABI", calls + "foreign", all_answer({"i386", "x32"}, "ENOSYS")});
    out.push_back({"nothing is typed into a terminal",
                   calls + "terminal",
                   "a terminal's TIOCSTI EPERM\na terminal's TIOCSTI, a bit above EPERM\n"
                   "a terminal's TIOCLINUX EPERM\na terminal's size ok\ncontrolling ok\n"
                   "the own terminal's TIOCSTI EPERM\n"
                   "the own terminal's TIOCSTI, a bit above EPERM\n"
                   "the own terminal's TIOCLINUX EPERM\nthe own terminal's size ok\n"});
    out.push_back({"sockets of the whole machine can't be made",
                   calls + "sockets",
                   all_answer({"rds", "vsock", "qipcrtr"}, "EPERM")});
    out.push_back({"nobody is kept waiting for a file",
                   calls + "leases " + shell_word(p.workspace + "/lease"),
                   all_answer({"lease", "lease, a bit above", "delegation"}, "EPERM")});
    out.push_back({"the first process's limits and priorities can't be changed",
                   calls + "settle 1",
                   all_answer({"prlimit",
                               "sched_setaffinity",
                               "sched_setparam",
                               "sched_setscheduler",
                               "sched_setattr",
                               "setpriority",
                               "setpriority of the user",
                               "ioprio_set",
                               "ioprio_set of the user"},
                              "EPERM")});
    const std::string directory = shell_word(p.workspace + "/setuid");
    out.push_back(
        {"no file gets the set-user-ID bit, however it is tried",
         calls + "setuid " + directory + "; find " + directory + " -perm -4000; rm -rf -- " +
             directory,
         all_answer({"chmod", "chmod, a bit above", "fchmod", "fchmodat"}, "EPERM") +
             "fchmodat2 ENOSYS\n" +
             all_answer({"mknod", "mknodat", "creat", "open", "openat", "a nameless file"},
                        "EPERM") +
             "openat2 ENOSYS\n" +
             all_answer({"chmod 0755", "chmod 2755", "open 0644", "open, a mode unused"}, "ok")});
    out.push_back({"a program can trace its child", calls + "trace-child", "ok\n"});
    out.push_back({"named semaphores work", calls + "semaphore", "semaphore ok\n"});
    out.push_back({"message queues of the host are out of reach",
                   calls + "queue " + shell_word(p.queue),
                   "queue ENOENT\n"});
    out.push_back({"abstract sockets work within a session",
                   calls + "meet \"own-$(cat /proc/sys/kernel/random/uuid)\"",
                   "connect ok\n"});
    out.push_back({"files move and are linked across directories",
                   "cd /tmp && mkdir one two && touch one/file && mv one/file two/ && "
                   "ln two/file one/again && ls one two; rm -rf one two",
                   "one:\nagain\n\ntwo:\nfile\n"});
}

}  // namespace detail

inline std::vector<Probe> probe_table(const ProbePlaces& places) {
    std::vector<Probe> out;
    detail::add_own(out, places);
    detail::add_machine(out);
    detail::add_hidden(out, places);
    detail::add_protected(out, places);
    detail::add_refused(out, places);
    detail::add_calls(out, places);
    if (places.memory_bytes > 0) {
        out.push_back(detail::memory_probe(places.memory_bytes));
    }
    return out;
}

// What a turn may do to the session's runner, and the limits that the runner sets.
struct RunnerPlaces {
    std::string calls;      // as above
    int64_t processes = 0;  // the session's limits
    int64_t open_files = 0;
    std::string abstract_socket;  // of a process outside, listening
};

inline std::vector<Probe> runner_table(const RunnerPlaces& p) {
    const std::string calls = shell_word(p.calls) + " ";
    std::vector<Probe> out;
    out.push_back({"the runner is out of its turn's reach",
                   calls + "reach 1",
                   detail::all_answer({"attach", "pidfd_getfd", "read", "write"}, "EPERM") +
                       detail::all_answer({"mem", "environ", "exe", "root", "fd"}, "EACCES")});
    out.push_back({"the runner can't be signalled", calls + "signal 1", "signal EPERM\n"});
    out.push_back({"limits are set, and none that breaks programs",
                   calls + "limits",
                   "processes " + std::to_string(p.processes) + "\nfiles " +
                       std::to_string(p.open_files) +
                       "\ncore 1\nlocked memory 65536\nsignals 1024\naddress space unlimited\nfile "
                       "size unlimited\n"});
    out.push_back({"when memory runs out sessions go before the host",
                   "cat /proc/self/oom_score_adj",
                   "500\n"});
    out.push_back({"abstract sockets outside are out of reach",
                   calls + "connect " + shell_word(p.abstract_socket),
                   "connect EPERM\n"});
    return out;
}

// Programs that must go on working under all that, where the machine has them.
inline std::vector<Probe> program_table(const std::string& workspace) {
    const std::string in = "cd -- " + shell_word(workspace) + " && ";
    const std::string identity = "git -c user.name=n -c user.email=e ";
    return {
        {"git",
         in + "git init -q one && echo a >one/file && git -C one add file && " + identity +
             "-C one commit -qm said && git clone -q one two 2>/dev/null && cat two/file && "
             "git init -q --shared three && git -C two log --format=%s && rm -rf one two three",
         "a\nsaid\n"},
        {"node",
         "node -e 'const {Worker} = require(\"worker_threads\");"
         "new Worker(\"console.log(6 * 7)\", {eval: true})'",
         "42\n"},
        {"python3",
         "python3 -c 'import subprocess, threading\n"
         "t = threading.Thread(target=lambda: print(6 * 7, flush=True)); t.start(); t.join()\n"
         "subprocess.run([\"echo\", \"child\"])'",
         "42\nchild\n"},
        {"gcc",
         in + "printf '#include <pthread.h>\\n#include <stdio.h>\\n#include <stdlib.h>\\n"
              "static void* say(void* p) { return puts(\"hello\"), p; }\\n"
              "int main(int n, char** v) { pthread_t t; pthread_create(&t, 0, say, v);\\n"
              "pthread_join(t, 0); return malloc(n) == 0; }\\n' >hello.c && gcc -g -fsanitize=leak "
              "-pthread hello.c -o hello && ./hello 2>&1 | grep -o -e hello -e "
              "'ERROR: LeakSanitizer: detected memory leaks' | sort; rm -f hello hello.c",
         "ERROR: LeakSanitizer: detected memory leaks\nhello\n"},
    };
}

// One script that runs them all, each in a subshell, its output between two marks.
inline std::string probe_script(const std::vector<Probe>& table) {
    std::string script = kProbePreamble;
    for (const Probe& probe : table) {
        script +=
            "echo '<<'" + shell_word(probe.name) + "\n(\n" + probe.script + "\n) 2>&1\necho '>>'\n";
    }
    return script;
}

// The outputs by probe name. A probe whose marks are missing is missing here.
inline std::map<std::string, std::string> probe_answers(std::string_view output,
                                                        const std::vector<Probe>& table) {
    std::map<std::string, std::string> answers;
    for (const Probe& probe : table) {
        const std::string mark = "<<" + probe.name + "\n";
        const size_t start = output.find(mark);
        if (start == std::string_view::npos) {
            continue;
        }
        const std::string_view rest = output.substr(start + mark.size());
        // An output that doesn't end its last line has the mark in the middle of one.
        const size_t end = rest.find(">>\n");
        if (end != std::string_view::npos) {
            answers[probe.name] = std::string(rest.substr(0, end));
        }
    }
    return answers;
}

}  // namespace mosaic::test
