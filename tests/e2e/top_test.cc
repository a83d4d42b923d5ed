// Goal: `mosaic top` shows what goes on, fits its terminal, outlives the broker and the host, and
// gives the terminal back however it ends. Method: the real command on a pseudo-terminal of its
// own, whose pictures are read as they are written.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

const std::string kEnter = "\x1b[?1049h";
const std::string kLeave = "\x1b[?1049l";

std::string without(std::string text, const std::string& part) {
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
        text.erase(at, part.size());
    }
    return text;
}

// `mosaic top` on a terminal that is its controlling one.
struct Terminal {
    UniqueFd master;
    UniqueFd terminal;  // kept open, so that what it is set to can be looked at after the end
    termios before{};
    std::string seen;
    Child top;

    explicit Terminal(const World& world) {
        master.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
        REQUIRE(master.valid());
        REQUIRE(::unlockpt(master.get()) == 0);
        std::array<char, 64> name{};
        REQUIRE(::ptsname_r(master.get(), name.data(), name.size()) == 0);
        terminal.reset(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
        REQUIRE(terminal.valid());
        resize(24, 120);
        REQUIRE(::tcgetattr(terminal.get(), &before) == 0);
        Environment env = world.environment();
        env["TOP_TERMINAL"] = name.data();
        top = Child::start(
            {"/bin/sh",
             "-c",
             "exec /usr/bin/setsid -c \"$0\" \"$@\" <$TOP_TERMINAL >$TOP_TERMINAL 2>&1",
             world.prefix() + "/bin/mosaic",
             "top",
             "--config",
             world.system_file,
             "--data",
             world.data},
            env,
            {});
    }

    void resize(unsigned short rows, unsigned short columns) const {
        const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
        REQUIRE(::ioctl(master.get(), TIOCSWINSZ, &size) == 0);
    }

    void press(const std::string& keys) const {
        REQUIRE(::write(master.get(), keys.data(), keys.size()) ==
                static_cast<ssize_t>(keys.size()));
    }

    // False at the deadline.
    bool read_more(int64_t deadline) {
        pollfd ready{.fd = master.get(), .events = POLLIN, .revents = 0};
        const int64_t left = deadline - now_ms();
        if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) <= 0) {
            return false;
        }
        std::array<char, 65536> buffer{};
        const ssize_t n = ::read(master.get(), buffer.data(), buffer.size());
        seen.append(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0);
        return true;
    }

    // The last picture that was written whole: its lines.
    [[nodiscard]] std::vector<std::string> picture() const {
        const std::string home = "\x1b[H";
        const size_t end = seen.rfind(home);
        const size_t begin =
            end == std::string::npos || end == 0 ? std::string::npos : seen.rfind(home, end - 1);
        std::vector<std::string> lines;
        if (begin == std::string::npos) {
            return lines;
        }
        std::string text = seen.substr(begin + home.size(), end - begin - home.size());
        text = without(without(text, "\x1b[2K"), "\x1b[J");
        for (size_t at = 0; at <= text.size();) {
            const size_t next = std::min(text.find("\r\n", at), text.size());
            lines.push_back(text.substr(at, next - at));
            at = next + 2;
        }
        return lines;
    }

    // Waits for a picture of which this holds.
    template <class Good>
    bool shows(Good good) {
        const int64_t deadline = now_ms() + kWaitMs;
        while (!good(picture())) {
            if (!read_more(deadline)) {
                return false;
            }
        }
        return true;
    }

    // ... that has a line with all of these.
    bool shows_line(std::initializer_list<const char*> parts) {
        return shows([&](const std::vector<std::string>& lines) {
            for (const std::string& line : lines) {
                bool all = true;
                for (const char* part : parts) {
                    all = all && contains(line, part);
                }
                if (all) {
                    return true;
                }
            }
            return false;
        });
    }

    // It has ended with this code, and the terminal is as it was.
    void check_left(int code) {
        // Read on, or it would wait for its last words to be taken.
        const int64_t deadline = now_ms() + kWaitMs;
        while (!seen.ends_with(kLeave) && read_more(deadline)) {
        }
        const auto exit = top.wait();
        REQUIRE(exit.has_value());
        CHECK(exit->code == code);
        CHECK(seen.ends_with("\x1b[?7h\x1b[?25h" + kLeave));
        termios after{};
        REQUIRE(::tcgetattr(terminal.get(), &after) == 0);
        CHECK(after.c_lflag == before.c_lflag);
        CHECK(after.c_iflag == before.c_iflag);
        CHECK(after.c_oflag == before.c_oflag);
        CHECK(std::memcmp(after.c_cc, before.c_cc, sizeof after.c_cc) == 0);
    }
};

}  // namespace

TEST_CASE("top shows sessions and events as they come and leaves at q") {
    World world;
    world.start();
    world.launch("coder");
    Terminal terminal(world);
    REQUIRE(terminal.shows_line({"coder", "shell", "live", "ago"}));
    CHECK(terminal.seen.starts_with(kEnter));
    REQUIRE(terminal.shows_line({"sessions", "1 live"}));
    world.launch("reviewer");
    REQUIRE(terminal.shows_line({"reviewer", "live"}));
    REQUIRE(terminal.shows_line({"role.claimed", "instance=reviewer"}));
    world.stop_run("coder");
    REQUIRE(terminal.shows_line({"session.ended", "instance=coder", "reason=stopped"}));
    REQUIRE(terminal.shows_line({"sessions", "1 live"}));
    REQUIRE(terminal.shows_line({"launches", "2", "p50", "p99"}));
    terminal.press("x");  // no key of it
    terminal.press("q");
    terminal.check_left(0);
}

TEST_CASE("top fits its terminal and follows its size") {
    World world;
    world.start();
    for (const char* instance : {"coder", "reviewer", "tester"}) {
        world.launch(instance);
    }
    Terminal terminal(world);
    REQUIRE(terminal.shows_line({"tester", "live"}));
    for (const auto& [rows, columns] : std::vector<std::pair<unsigned short, unsigned short>>{
             {10, 40}, {3, 7}, {1, 1}, {50, 200}}) {
        CAPTURE(rows);
        terminal.resize(rows, columns);
        const bool fits = terminal.shows([&](const std::vector<std::string>& lines) {
            bool good = !lines.empty() && lines.size() <= rows + size_t{1};
            // The line after a short picture is empty: only what lies below is cleared there.
            good = good && (lines.size() <= rows || lines.back().empty());
            for (const std::string& line : lines) {
                good = good && line.size() <= columns;
            }
            return good && (rows < 50 || lines.front().size() > 30);
        });
        CHECK(fits);
    }
    REQUIRE(terminal.shows_line({"tester", "live"}));
    terminal.press("q");
    terminal.check_left(0);
}

TEST_CASE("top gives the terminal back at an interrupt and at SIGTERM") {
    World world;
    world.start();
    for (const bool key : {true, false}) {
        Terminal terminal(world);
        REQUIRE(terminal.shows_line({"sessions"}));
        if (key) {
            terminal.press("\x03");
        } else {
            terminal.top.signal(SIGTERM);
        }
        terminal.check_left(0);
    }
}

TEST_CASE("top gives the terminal back while it is stopped") {
    World world;
    world.start();
    Terminal terminal(world);
    REQUIRE(terminal.shows_line({"sessions"}));
    terminal.press("\x1a");
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(terminal.top.pid()), &info, WSTOPPED) == 0);
    const int64_t deadline = now_ms() + kWaitMs;
    while (!terminal.seen.ends_with(kLeave) && terminal.read_more(deadline)) {
    }
    CHECK(terminal.seen.ends_with(kLeave));
    terminal.seen.clear();
    terminal.top.signal(SIGCONT);
    CHECK(terminal.shows_line({"sessions"}));
    CHECK(terminal.seen.starts_with(kEnter));
    terminal.press("q");
    terminal.check_left(0);
}

TEST_CASE("top goes on after the broker was killed and when the host comes back") {
    World world;
    world.start();
    Terminal terminal(world);
    REQUIRE(terminal.shows_line({"sessions", "0 live"}));
    const pid_t broker = world.broker_pid();
    ::kill(broker, SIGKILL);
    REQUIRE(wait_gone(broker));
    world.launch("coder");
    REQUIRE(terminal.shows_line({"coder", "live"}));
    world.stop();
    REQUIRE(terminal.shows_line({"trying again"}));
    world.start();
    world.launch("tester");
    REQUIRE(terminal.shows_line({"tester", "live"}));
    REQUIRE(terminal.shows([](const std::vector<std::string>& lines) {
        return !lines.empty() && !contains(lines.front(), "trying again");
    }));
    terminal.press("q");
    terminal.check_left(0);
}

TEST_CASE("top without a terminal says what it needs and prints a snapshot on request") {
    World world;
    world.start();
    world.launch("coder");
    const Finished none = world.mosaic({"top"});
    CHECK(none.exit.code == 4);
    CHECK(none.out.empty());
    CHECK_CONTAINS(none.err, "--once");
    const Finished once = world.mosaic({"top", "--once"});
    CHECK(once.exit.code == 0);
    CHECK_CONTAINS(once.out, "sessions  1 live");
    CHECK_CONTAINS(once.out, "role.claimed instance=coder");
    CHECK_FALSE(contains(once.out, "\x1b"));
    const json::Value data = world.mosaic({"top", "--json"}).json();
    CHECK(number(*data.find("counts"), "live") == 1);
    const json::Array& sessions = *data.find("sessions")->array();
    REQUIRE(sessions.size() == 1);
    CHECK(text(sessions[0], "seat") == "coder");
    CHECK(text(sessions[0], "state") == "live");
    const Finished last = world.mosaic({"events", "--last", "1", "--json"});
    CHECK(last.json_lines().size() == 1);
    CHECK(text(last.json_lines()[0], "type") == "role.claimed");
    world.stop();
    const Finished gone = world.mosaic({"top", "--once"});
    CHECK(gone.exit.code == 1);
    CHECK_CONTAINS(gone.err, "admin.sock");
}
