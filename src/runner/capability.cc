#include "runner/capability.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"
#include "base/secret.h"
#include "wire/limits.h"
#include "wire/messages.h"

namespace mosaic::runner {
namespace {

constexpr size_t kPageBytes = 4096;
static_assert(limits::kCapabilityLineBytesMax <= kPageBytes);

// The line's bytes while they arrive; overwritten at the end of the scope.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): read fills it
struct LineBytes {
    std::array<char, limits::kCapabilityLineBytesMax + 1> bytes;
    size_t used = 0;

    LineBytes() = default;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    LineBytes(const LineBytes&) = delete;
    LineBytes& operator=(const LineBytes&) = delete;

    ~LineBytes() { explicit_bzero(bytes.data(), used); }
};

// A capability stands between quotes in every frame without being escaped.
bool is_plain(std::string_view capability) {
    return std::all_of(capability.begin(), capability.end(), [](char c) {
        return c > 0x20 && c < 0x7f && c != '"' && c != '\\';
    });
}

Result<void> keep(std::string_view line, CapabilityPage& page) {
    auto decoded = wire::decode_capability_line(line);
    if (!decoded) {
        return fail(Code::invalid, "the capability line: " + decoded.error().text);
    }
    const bool good = is_plain(decoded->cap);
    if (good) {
        page.set(decoded->cap);
    }
    wipe(decoded->cap);
    if (!good) {
        return fail(Code::invalid, "the capability line: /cap: expected printable ASCII");
    }
    return {};
}

// Milliseconds for poll(2), rounded up; -1 without a deadline.
int wait_ms(const std::optional<Instant>& until) {
    if (!until) {
        return -1;
    }
    const int64_t left_ns = (*until - monotonic_now()).ns;
    return left_ns <= 0 ? 0 : static_cast<int>((left_ns + 999'999) / 1'000'000);
}

// One read. True when the line is whole.
Result<bool> read_some(int input, LineBytes& line) {
    char* const end = line.bytes.data() + line.used;
    const ssize_t got = ::read(input, end, line.bytes.size() - line.used);
    if (got < 0) {
        if (errno == EINTR || errno == EAGAIN) {
            return false;
        }
        return fail_sys(errno, "standard input");
    }
    if (got == 0) {
        return fail(Code::invalid, "standard input ended before the capability line");
    }
    line.used += static_cast<size_t>(got);
    if (std::find(end, end + got, '\n') != end + got) {
        return true;
    }
    if (line.used == line.bytes.size()) {
        return fail(Code::too_large,
                    "the capability line: longer than " +
                        std::to_string(limits::kCapabilityLineBytesMax) + " bytes");
    }
    return false;
}

}  // namespace

CapabilityPage::CapabilityPage() {
    void* const page =
        ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MOSAIC_ASSERT(page != MAP_FAILED);
    page_ = static_cast<char*>(page);
    // Each is one more layer; the page is useful without any of them (RLIMIT_MEMLOCK may be 0).
    ignore(::mlock(page_, kPageBytes), "a limit may forbid it");
    ignore(::madvise(page_, kPageBytes, MADV_DONTDUMP), "the process isn't dumpable anyway");
    ignore(::madvise(page_, kPageBytes, MADV_WIPEONFORK), "the runner never forks");
}

CapabilityPage::~CapabilityPage() {
    explicit_bzero(page_, kPageBytes);
    ::munmap(page_, kPageBytes);
}

void CapabilityPage::set(std::string_view capability) {
    MOSAIC_ASSERT(capability.size() <= kPageBytes);
    std::copy(capability.begin(), capability.end(), page_);
    size_ = capability.size();
}

Result<CapabilityRead> read_capability(const CapabilitySource& source, CapabilityPage& page) {
    LineBytes line;
    std::optional<Instant> until;
    if (source.deadline) {
        until = monotonic_now() + *source.deadline;
    }
    for (;;) {
        std::array<pollfd, 2> polls = {pollfd{source.input, POLLIN, 0},
                                       pollfd{source.signals, POLLIN, 0}};
        const int ready = ::poll(polls.data(), polls.size(), wait_ms(until));
        if (ready < 0 && errno != EINTR) {
            return fail_sys(errno, "poll");
        }
        if (ready == 0) {
            return fail(Code::unavailable, "no capability line came in time");
        }
        // The pipe first: its end must be told from a stop whichever came first.
        if (polls[0].revents != 0) {
            MOSAIC_TRY_ASSIGN(const bool whole, read_some(source.input, line));
            if (whole) {
                const std::string_view held(line.bytes.data(), line.used);
                MOSAIC_TRY(keep(held.substr(0, held.find('\n')), page));
                return CapabilityRead::received;
            }
        } else if (polls[1].revents != 0) {
            return CapabilityRead::stopped;
        }
    }
}

}  // namespace mosaic::runner
