#include "cli/top_screen.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/output.h"

namespace mosaic::cli {
namespace {

// The alternate screen, no cursor, no wrapping at the right edge; and all of it back.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr const char* kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

bool has_terminal() {
    return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

Result<Screen> Screen::take() {
    termios before{};
    if (::tcgetattr(STDIN_FILENO, &before) != 0) {
        return fail_sys(errno, "the terminal");
    }
    sigset_t wanted{};
    sigemptyset(&wanted);
    for (const int signal : {SIGWINCH, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP}) {
        sigaddset(&wanted, signal);
    }
    UniqueFd signals(::sigprocmask(SIG_BLOCK, &wanted, nullptr) == 0
                         ? ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)
                         : -1);
    if (!signals.valid()) {
        return fail_sys(errno, "signalfd");
    }
    Screen out(std::move(signals), before);
    out.enter();
    return out;
}

Screen::Screen(UniqueFd signals, termios before) : signals_(std::move(signals)), before_(before) {}

Screen::Screen(Screen&& other) noexcept
    : signals_(std::move(other.signals_)),
      before_(other.before_),
      taken_(std::exchange(other.taken_, false)) {}

Screen::~Screen() {
    leave();
}

void Screen::enter() {
    termios raw = before_;
    // ^C, ^Z and ^\ arrive as keys; signals of these kinds then come from elsewhere only.
    ::cfmakeraw(&raw);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    taken_ = true;
    ignore(print(kEnter), "the first picture tells of a terminal that is gone");
}

void Screen::leave() {
    if (std::exchange(taken_, false)) {
        ignore(print(kLeave), "a terminal that is gone needs nothing back");
        ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
    }
}

Screen::Size Screen::size() const {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        return {};
    }
    return {size.ws_row, size.ws_col};
}

Result<void> Screen::show(const std::vector<std::string>& lines) {
    // A line is cleared before it is written: after one as long as the screen is wide the cursor
    // stands on its last character.
    std::string out = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i) {
        out += (i > 0 ? "\r\n" : "") + std::string("\x1b[2K") + lines[i];
    }
    out += lines.size() < size().rows ? "\r\n\x1b[J" : "";
    return print(out);
}

int Screen::next_signal() const {
    signalfd_siginfo info{};
    const ssize_t n = ::read(signals_.get(), &info, sizeof info);
    return n == ssize_t{sizeof info} ? static_cast<int>(info.ssi_signo) : 0;
}

void Screen::stop_here() {
    leave();
    ignore(::raise(SIGSTOP), "not blocked, and nothing else of ours handles it");
    // Whoever had the terminal meanwhile may have changed it.
    termios now{};
    if (::tcgetattr(STDIN_FILENO, &now) == 0) {
        before_ = now;
    }
    enter();
}

}  // namespace mosaic::cli
