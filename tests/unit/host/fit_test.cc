// Goal: two plans fit exactly when they would make the same session. Method: change one thing each.

#include "host/fit.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"

using namespace mosaic;
using host::Fit;

namespace {

constexpr const char* kRun = "r0123456789ab";
constexpr const char* kOther = "rba9876543210";

std::string fit_of(const std::string& run, const std::vector<std::string>& texts) {
    Fit fit(run);
    for (const std::string& text : texts) {
        fit.add(text);
    }
    return fit.result();
}

std::string fit_of_path(const std::string& path) {
    Fit fit(kRun);
    fit.add_path(path);
    return fit.result();
}

void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
}

struct Directory {
    std::string path = "/var/tmp/mosaic-fit-XXXXXX";

    Directory() { REQUIRE(::mkdtemp(path.data()) != nullptr); }

    ~Directory() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("the run's own id is the only word that may differ") {
    const std::string run = kRun;
    const std::string other = kOther;
    CHECK(fit_of(run, {"a " + run + "/b" + run, run}) ==
          fit_of(other, {"a " + other + "/b" + other, other}));
    CHECK(fit_of(run, {run}) != fit_of(other, {run}));
    CHECK(fit_of(run, {run + "x"}) != fit_of(run, {run + "y"}));
}

TEST_CASE("texts that run together differ from those that don't") {
    const std::string run = kRun;
    const std::vector<std::vector<std::string>> lists = {{},
                                                         {""},
                                                         {"", ""},
                                                         {"ab"},
                                                         {"a", "b"},
                                                         {"b", "a"},
                                                         {"a" + run + "b"},
                                                         {"a", run, "b"},
                                                         {"a" + run, "b"},
                                                         {"a", run + "b"},
                                                         {run + run},
                                                         {run, run},
                                                         {"1:a/1:b/"}};
    std::set<std::string> fits;
    for (const auto& list : lists) {
        CHECK(fits.insert(fit_of(run, list)).second);
    }
}

TEST_CASE("a path is what lies there") {
    const Directory directory;
    const std::string file = directory.path + "/file";
    const std::string none = fit_of_path(file);
    write(file, "one");
    const std::string first = fit_of_path(file);
    CHECK(first != none);
    CHECK(first == fit_of_path(file));
    // By a link it is the same file.
    std::filesystem::create_symlink(file, directory.path + "/link");
    CHECK(fit_of_path(directory.path + "/link") == first);
    // Another one at its place, and the same one written again.
    write(directory.path + "/new", "one");
    std::filesystem::rename(directory.path + "/new", file);
    const std::string second = fit_of_path(file);
    CHECK(second != first);
    write(file, "longer");
    CHECK(fit_of_path(file) != second);
    // A directory stays the same when something is made in it.
    const std::string before = fit_of_path(directory.path);
    write(directory.path + "/more", "");
    CHECK(fit_of_path(directory.path) == before);
}

TEST_CASE("a descriptor is the file that it is of") {
    const Directory one;
    const Directory two;
    const auto fit = [](const std::string& path) {
        const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
        Fit out(kRun);
        out.add_descriptor(fd.get());
        return out.result();
    };
    CHECK(fit(one.path) == fit(one.path));
    CHECK(fit(one.path) != fit(two.path));
    CHECK(fit(one.path) != fit("/var/tmp/mosaic-fit-none"));
}
