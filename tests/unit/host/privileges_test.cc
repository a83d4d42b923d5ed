// Goal: a host that root starts in some directory finds what its arguments named there when it
// starts again as the user, in another directory.

#include "host/privileges.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace mosaic;
using Words = std::vector<std::string>;

namespace {

Words absolute(const Words& words) {
    auto out = host::absolute_arguments(words);
    REQUIRE(out.has_value());
    return *out;
}

}  // namespace

TEST_CASE("relative paths among the arguments become absolute, in both spellings") {
    const std::string here = std::filesystem::current_path().string();
    CHECK(absolute({"mosaic-host",
                    "--user",
                    "bob",
                    "--business",
                    "./acme.json",
                    "--config",
                    "conf/system.json",
                    "--data",
                    "data"}) == Words{"mosaic-host",
                                      "--user",
                                      "bob",
                                      "--business",
                                      here + "/./acme.json",
                                      "--config",
                                      here + "/conf/system.json",
                                      "--data",
                                      here + "/data"});
    CHECK(absolute({"h", "--business=acme.json", "--config=s=1.json", "--data=../d"}) ==
          Words{"h",
                "--business=" + here + "/acme.json",
                "--config=" + here + "/s=1.json",
                "--data=" + here + "/../d"});
}

TEST_CASE("all other arguments stay as they are") {
    for (const Words& words : {Words{"h"},
                               Words{"./mosaic-host", "--pm"},
                               Words{"h", "--business", "acme", "--user", "data"},
                               Words{"h", "--business=acme", "--pm"},
                               Words{"h", "--config", "/etc/mosaic/system.json", "--data=/srv/m"},
                               Words{"h", "--data=", "--business", "acme"},
                               Words{"h", "--data", ""}}) {
        CHECK(absolute(words) == words);
    }
}
