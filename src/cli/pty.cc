#include "cli/pty.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/output.h"

namespace mosaic::cli {
namespace {

constexpr size_t kChunk = 4096;
// EOT: what a terminal's line discipline takes for the end of input.
constexpr char kEndOfFile = '\x04';
// A shell that makes the terminal raw throws away an end of input that came before. So the end is
// said again until it is heard.
constexpr int kEndAgainMs = 200;

// The size of our own window; false where we have none.
bool own_size(winsize& size) {
    return ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ||
           ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
}

Result<UniqueFd> watch_signals() {
    sigset_t wanted{};
    sigemptyset(&wanted);
    for (const int signal : {SIGWINCH, SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&wanted, signal);
    }
    UniqueFd fd(::sigprocmask(SIG_BLOCK, &wanted, nullptr) == 0
                    ? ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)
                    : -1);
    if (!fd.valid()) {
        return fail_sys(errno, "signalfd");
    }
    return fd;
}

class Copy {
  public:
    Copy(const Pty& pty, int exited, UniqueFd signals)
        : pty_(pty), exited_(exited), signals_(std::move(signals)) {}

    Result<bool> run() {
        for (bool over = false; !over;) {
            MOSAIC_TRY_ASSIGN(over, round());
        }
        if (!told_) {
            MOSAIC_TRY(drain());
        }
        return !told_;
    }

  private:
    const Pty& pty_;
    int exited_;
    UniqueFd signals_;
    std::string pending_;  // from standard input, for the terminal
    char last_read_ = '\n';
    bool input_over_ = false;
    bool told_ = false;

    Result<bool> round() {
        const bool reads = !input_over_ && pending_.empty();
        const auto wanted = static_cast<short>(POLLIN | (pending_.empty() ? 0 : POLLOUT));
        std::array<pollfd, 4> polls = {{{signals_.get(), POLLIN, 0},
                                        {reads ? STDIN_FILENO : -1, POLLIN, 0},
                                        {pty_.master.get(), wanted, 0},
                                        {exited_, POLLIN, 0}}};
        const int ready = ::poll(polls.data(), polls.size(), input_over_ ? kEndAgainMs : -1);
        if (ready < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (ready == 0 && pending_.empty()) {
            pending_ = kEndOfFile;
        }
        if (polls[0].revents != 0) {
            take_signals();
        }
        if (polls[1].revents != 0) {
            read_input();
        }
        write_pending();
        MOSAIC_TRY(print_output());
        return told_ || polls[3].revents != 0;
    }

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof(info)) == ssize_t{sizeof(info)}) {
            winsize size{};
            if (info.ssi_signo != SIGWINCH) {
                told_ = true;
            } else if (own_size(size)) {
                ::ioctl(pty_.master.get(), TIOCSWINSZ, &size);
            }
        }
    }

    void read_input() {
        std::array<char, kChunk> buffer{};
        const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
        if (got > 0) {
            pending_.assign(buffer.data(), static_cast<size_t>(got));
            last_read_ = pending_.back();
        } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
            // Behind a half line it would be no end of input.
            input_over_ = true;
            pending_ = last_read_ == '\n' ? std::string() : std::string("\n");
            pending_ += kEndOfFile;
        }
    }

    void write_pending() {
        if (pending_.empty()) {
            return;
        }
        const ssize_t put = ::write(pty_.master.get(), pending_.data(), pending_.size());
        if (put > 0) {
            pending_.erase(0, static_cast<size_t>(put));
        }
    }

    // What is there now, but not for ever: a program that prints faster than we do must not keep
    // keys and signals from their turn. False at the end: nobody has the terminal open any more.
    Result<bool> print_output() {
        constexpr int kChunksAtOnce = 16;
        std::array<char, kChunk> buffer{};
        for (int i = 0; i < kChunksAtOnce; ++i) {
            const ssize_t got = ::read(pty_.master.get(), buffer.data(), buffer.size());
            if (got <= 0) {
                return got < 0 && errno == EAGAIN;
            }
            MOSAIC_TRY(print({buffer.data(), static_cast<size_t>(got)}));
        }
        return true;
    }

    // What was written before the exit may still be on its way through the kernel.
    Result<void> drain() {
        constexpr int kOutputTakesMs = 1000;
        for (;;) {
            pollfd output{.fd = pty_.master.get(), .events = POLLIN, .revents = 0};
            MOSAIC_TRY_ASSIGN(const bool more, print_output());
            if (!more || ::poll(&output, 1, kOutputTakesMs) == 0) {
                return {};
            }
        }
    }
};

}  // namespace

Result<Pty> open_pty() {
    Pty out;
    out.master.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (!out.master.valid() || ::unlockpt(out.master.get()) != 0) {
        return fail_sys(errno, "a terminal (/dev/ptmx)");
    }
    out.terminal.reset(::ioctl(out.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!out.terminal.valid()) {
        return fail_sys(errno, "a terminal (TIOCGPTPEER)");
    }
    winsize size{};
    if (!own_size(size)) {
        size.ws_row = 24;
        size.ws_col = 80;
    }
    ::ioctl(out.master.get(), TIOCSWINSZ, &size);
    return out;
}

RawInput::RawInput() {
    termios now{};
    if (::tcgetattr(STDIN_FILENO, &now) != 0) {
        return;
    }
    before_ = now;
    ::cfmakeraw(&now);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

RawInput::~RawInput() {
    if (before_) {
        ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
    }
}

Result<bool> copy_terminal(const Pty& pty, int exited) {
    MOSAIC_TRY_ASSIGN(UniqueFd signals, watch_signals());
    return Copy(pty, exited, std::move(signals)).run();
}

}  // namespace mosaic::cli
