// bwrap's status stream, and the lines of runner.log that say why it failed. A session's processes
// write to runner.log; the stream's other end is in bwrap.

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "sandbox/status.h"

namespace mosaic {
namespace {

struct Verdict {
    bool good = false;
    std::optional<pid_t> child_pid;
    std::optional<int> exit_code;

    bool operator==(const Verdict&) const = default;
};

Verdict read(const std::vector<std::string_view>& pieces) {
    sandbox::StatusParser parser;
    Verdict out;
    out.good = true;
    for (const std::string_view piece : pieces) {
        const bool fed = parser.feed(piece).has_value();
        FUZZ_CHECK(out.good || !fed);  // an error stays
        out.good = fed;
    }
    out.child_pid = parser.child_pid();
    out.exit_code = parser.exit_code();
    return out;
}

void check_error_line(std::string_view text) {
    const std::string line = sandbox::first_error_line(text);
    FUZZ_CHECK(line.size() <= 300);
    FUZZ_CHECK(valid_utf8_prefix(line) == line.size());
    for (const char c : line) {
        FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    }
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    const std::string_view text = fuzz::text_of(data, size);
    const Verdict whole = read({text});
    FUZZ_CHECK(whole == read(fuzz::in_pieces(text)));
    FUZZ_CHECK(!whole.child_pid || *whole.child_pid > 0);
    FUZZ_CHECK(!whole.exit_code || (*whole.exit_code >= 0 && *whole.exit_code <= 255));
    check_error_line(text);
    for (const int code : {0, 1, 20, 137, 255}) {
        const process::Exit outer{.exit_code = code, .signal = 0};
        const sandbox::End end =
            sandbox::map_exit(outer, whole.exit_code, sandbox::first_error_line(text));
        // A death by signal has no exit code, everything else has one.
        FUZZ_CHECK((end.reason == EndReason::killed) == !end.signal.empty());
        FUZZ_CHECK(end.exit_code.has_value() == end.signal.empty());
    }
    return 0;
}
