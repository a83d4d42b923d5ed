// session.json: what the runner is told of its run, read in the sandbox.

#include "wire/session_file.h"

#include "fuzz/fuzz.h"
#include "wire/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace mosaic;
    const auto value = json::parse(fuzz::text_of(data, size), {limits::kFileDepthMax});
    if (!value) {
        return 0;
    }
    const auto file = wire::SessionFile::from(*value, "session.json");
    if (!file) {
        FUZZ_CHECK(file.error().text.starts_with("session.json"));
        return 0;
    }
    FUZZ_CHECK(is_id(file->business) && is_id(file->seat.instance) && is_run_id(file->run));
    FUZZ_CHECK(file->limits.turn_seconds > 0 && file->limits.reply_bytes > 0);
    FUZZ_CHECK(file->limits.broker_retries >= 0 && file->limits.processes > 0);
    const auto again = wire::SessionFile::from(file->to_value(), "session.json");
    FUZZ_CHECK(again && *again == *file);
    return 0;
}
