// A line on launch.sock, from a session.

#include "fuzz/fuzz.h"
#include "wire/limits.h"
#include "wire/lines.h"
#include "wire/messages.h"

namespace mosaic {
namespace {

void check_line(std::string_view line) {
    const auto request = wire::decode_launch_request(line);
    if (!request) {
        FUZZ_CHECK(!request.error().text.empty());
        return;
    }
    // What is accepted becomes part of paths.
    FUZZ_CHECK(is_id(request->seat.instance));
    FUZZ_CHECK(request->seat.thread.empty() || is_id(request->seat.thread));
    std::string again = wire::encode(*request);
    FUZZ_CHECK(!again.empty() && again.back() == '\n' && again.find('\n') == again.size() - 1);
    again.pop_back();
    const auto twice = wire::decode_launch_request(again);
    FUZZ_CHECK(twice && twice->cap == request->cap && twice->seat == request->seat);
}

// The lines of a stream don't depend on the pieces that it comes in.
std::vector<std::string> lines_of(const std::vector<std::string_view>& pieces, size_t max) {
    wire::LineBuffer buffer(max);
    std::vector<std::string> out;
    for (const std::string_view piece : pieces) {
        buffer.append(piece);
        while (auto line = buffer.next()) {
            FUZZ_CHECK(line->size() <= max);
            FUZZ_CHECK(line->find('\n') == std::string::npos);
            out.push_back(std::move(*line));
        }
        if (buffer.overlong()) {
            out.emplace_back("overlong\n");
            return out;
        }
    }
    out.push_back(buffer.take_rest());
    FUZZ_CHECK(buffer.empty());
    return out;
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text = mosaic::fuzz::text_of(data, size);
    mosaic::check_line(text);
    const size_t max = size > 0 ? 1 + data[0] : 16;
    const auto whole = mosaic::lines_of({text}, max);
    const auto pieces = mosaic::lines_of(mosaic::fuzz::in_pieces(text), max);
    FUZZ_CHECK(whole == pieces);
    for (const std::string& line : whole) {
        mosaic::check_line(line);
    }
    return 0;
}
