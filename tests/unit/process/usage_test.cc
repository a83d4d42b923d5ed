// Goal: what is told of this process is what it has. Method: a few more descriptors, and the limit
// as the kernel has it.

#include "process/usage.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <vector>

#include "base/unique_fd.h"

using namespace mosaic;

TEST_CASE("open descriptors are counted, and memory is in use") {
    const process::Usage before = process::usage_of_self();
    std::vector<UniqueFd> more;
    for (int i = 0; i < 7; ++i) {
        more.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        REQUIRE(more.back().valid());
    }
    CHECK(process::usage_of_self().open_fds == before.open_fds + 7);
    CHECK(before.open_fds >= 3);
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(before.max_fds == limit.rlim_cur);
    CHECK(before.resident_bytes > 1024 * 1024);
}
