// mosaic-broker --store FILE --control-fd N --bus-fd N --admin-fd N
//
// Started by the host with inherited descriptors, never by a person. Ends with the host.

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>
#include <string_view>

#include "broker/server.h"
#include "broker/store.h"
#include "process/descriptors.h"
#include "wire/codes.h"

namespace mosaic::broker {
namespace {

struct Options {
    std::string store;
    int control_fd = -1;
    int bus_fd = -1;
    int admin_fd = -1;
};

constexpr const char* kUsage =
    "usage: mosaic-broker --store FILE --control-fd N --bus-fd N --admin-fd N (mosaic-host starts "
    "it)";

int parse_fd(std::string_view text) {
    int fd = -1;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, fd);
    return parsed.ec == std::errc() && parsed.ptr == end ? fd : -1;
}

Result<Options> parse_options(int argc, char** argv) {
    Options out;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        const std::string_view value = argv[i + 1];
        if (name == "--store") {
            out.store = value;
        } else if (name == "--control-fd") {
            out.control_fd = parse_fd(value);
        } else if (name == "--bus-fd") {
            out.bus_fd = parse_fd(value);
        } else if (name == "--admin-fd") {
            out.admin_fd = parse_fd(value);
        } else {
            return fail(Code::invalid, "unknown option " + std::string(name));
        }
    }
    if (argc % 2 == 0 || out.store.empty()) {
        return fail(Code::invalid, "expected each option with its value, --store among them");
    }
    return out;
}

// A socket, and a listening one where that is wanted; close-on-exec from here on.
Result<UniqueFd> inherit(const char* option, int fd, bool listening) {
    UniqueFd out(fd);
    int accepts = 0;
    socklen_t size = sizeof accepts;
    if (fd <= 2 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0 ||
        (accepts != 0) != listening) {
        return fail(Code::invalid,
                    std::string(option) + ": expected an inherited " +
                        (listening ? "listening socket" : "connected socket"));
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return fail_sys(errno, option);
    }
    return out;
}

Result<UniqueFd> prepare_signals() {
    // SIGXFSZ: a file-size limit is a write that fails, as a full disk is.
    std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): both can't fail
    std::signal(SIGXFSZ, SIG_IGN);  // NOLINT(cert-err33-c)
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd.valid()) {
        return fail_sys(errno, "signalfd");
    }
    return fd;
}

int failed(const Error& error, int code) {
    log_line(error.text);
    return code;
}

int run(int argc, char** argv) {
    const auto options = parse_options(argc, argv);
    if (!options) {
        log_line(options.error().text);
        return failed({Code::invalid, 0, kUsage}, exit_code::kUsage);
    }
    umask(0077);
    process::raise_descriptor_limit();
    Sockets sockets;
    auto control = inherit("--control-fd", options->control_fd, false);
    auto bus = inherit("--bus-fd", options->bus_fd, true);
    auto admin = inherit("--admin-fd", options->admin_fd, true);
    for (const auto* inherited : {&control, &bus, &admin}) {
        if (!*inherited) {
            return failed(inherited->error(), exit_code::kUsage);
        }
    }
    sockets.control = std::move(*control);
    sockets.bus = std::move(*bus);
    sockets.admin = std::move(*admin);
    auto signals = prepare_signals();
    if (!signals) {
        return failed(signals.error(), exit_code::kFailed);
    }
    sockets.signals = std::move(*signals);
    Store store;
    if (const auto opened = store.open(options->store); !opened) {
        return failed(
            opened.error(),
            opened.error().code == Code::system ? exit_code::kFailed : exit_code::kRefused);
    }
    Server server(std::move(sockets), store);
    const auto code = server.run();
    return code ? *code : failed(code.error(), exit_code::kFailed);
}

}  // namespace
}  // namespace mosaic::broker

int main(int argc, char** argv) {
    return mosaic::broker::run(argc, argv);
}
