#pragma once

#include <termios.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

// The terminal while `mosaic top` has it: plain ANSI (ECMA-48) and the alternate screen that every
// terminal since xterm has.

namespace mosaic::cli {

// Standard input and standard output are terminals.
[[nodiscard]] bool has_terminal();

// Takes the terminal: keys come at once and unseen, the screen is another one. Gives it back as it
// was when it goes, or for as long as we are stopped. One at a time.
class Screen {
  public:
    // The error is for the operator; nothing has been changed then.
    [[nodiscard]] static Result<Screen> take();
    Screen(Screen&& other) noexcept;
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;
    Screen& operator=(Screen&&) = delete;
    ~Screen();

    struct Size {
        size_t rows = 24;
        size_t columns = 80;
    };

    [[nodiscard]] Size size() const;

    // The whole picture; lines beyond the screen's size are the caller's to leave out.
    [[nodiscard]] Result<void> show(const std::vector<std::string>& lines);

    // SIGWINCH and whatever ends or stops us arrives here, to be read by next_signal().
    [[nodiscard]] int signals() const { return signals_.get(); }

    // 0: none more now.
    [[nodiscard]] int next_signal() const;

    // ^Z: the terminal is given back, we stop, and take it again when we go on.
    void stop_here();

  private:
    Screen(UniqueFd signals, termios before);
    void enter();
    void leave();

    UniqueFd signals_;
    termios before_{};
    bool taken_ = false;
};

}  // namespace mosaic::cli
