#pragma once

#include <string>

namespace mosaic::runner {

// A shell on standard input, output and error for a person who looks around in a sandbox, with what
// holds for turns: the run's limits and, where the kernel has it, the Landlock scope. It leads a
// session of its own whose terminal is standard input. Reaps orphans as pid 1 must, and returns
// the shell's exit code (128 + n for a signal); what the shell left running ends with us. There is
// no capability in such a sandbox, and nothing is claimed.
int run_shell(const std::string& run_directory);

}  // namespace mosaic::runner
