#pragma once

#include <termios.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

// A terminal of its own for a program, and the copying between it and ours.

namespace mosaic::cli {

struct Pty {
    UniqueFd master;    // ours, non-blocking
    UniqueFd terminal;  // the program's; nobody's controlling terminal yet. To be closed once it
                        // has started, so that the end of its output shows
};

// As large as the terminal that standard input or output is, else 24 lines of 80.
[[nodiscard]] Result<Pty> open_pty();

// Standard input hands every key on as it is, ^C and ^Z too, until this is gone. Nothing happens
// where it is no terminal.
class RawInput {
  public:
    RawInput();
    RawInput(const RawInput&) = delete;
    RawInput& operator=(const RawInput&) = delete;
    ~RawInput();

  private:
    std::optional<termios> before_;
};

// Copies standard input to the terminal and what comes from it to standard output, and hands on
// changes of our window's size, until `exited` (a pidfd) is readable and all output is copied; then
// true. False when we are told to end by SIGTERM, SIGINT or SIGHUP. The end of our input is the
// end-of-file character for the program.
[[nodiscard]] Result<bool> copy_terminal(const Pty& pty, int exited);

}  // namespace mosaic::cli
