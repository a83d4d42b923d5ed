// bus-host/sessions.json: what a host that died left for the next one. An entry is a reason to kill
// processes, so nothing but an exact file may be accepted.

#include <set>

#include "fuzz/fuzz.h"
#include "registry/launch_log.h"
#include "registry/sessions.h"

namespace mosaic {
namespace {

constexpr const char* kPath = "/data/bus-host/sessions.json";

void check_entries(const registry::SessionsFile& file) {
    std::set<std::string> runs;
    std::set<Seat> seats;
    for (const registry::SessionEntry& entry : file.entries) {
        FUZZ_CHECK(is_id(entry.business) && is_id(entry.seat.instance) && is_run_id(entry.run));
        FUZZ_CHECK(entry.seat.thread.empty() || is_id(entry.seat.thread));
        FUZZ_CHECK(entry.business == file.entries.front().business);
        FUZZ_CHECK(entry.process.pid > 0 && entry.process.runner_pid > 0);
        FUZZ_CHECK(!entry.process.start_time.empty() && !entry.process.runner_start_time.empty());
        FUZZ_CHECK(entry.run_dir.starts_with('/'));
        FUZZ_CHECK(runs.insert(entry.run).second);
        FUZZ_CHECK(entry.warm || seats.insert(entry.seat).second);
        FUZZ_CHECK(entry.warm == entry.launched_by.empty());
    }
}

}  // namespace
}  // namespace mosaic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    const std::string_view text = fuzz::text_of(data, size);
    const auto file = registry::parse_sessions(text, kPath, "");
    if (file) {
        check_entries(*file);
        const auto again = registry::parse_sessions(registry::dump_sessions(*file), kPath, "");
        FUZZ_CHECK(again && *again == *file);
        FUZZ_CHECK(!registry::parse_sessions(text, kPath, "another") || file->entries.empty() ||
                   file->entries.front().business == "another");
    } else {
        FUZZ_CHECK(file.error().text.starts_with(kPath));
        FUZZ_CHECK(file.error().code == Code::corrupt);
    }
    if (const auto record = registry::parse_log_line(text); record) {
        FUZZ_CHECK(record->value.object() != nullptr);
    }
    return 0;
}
