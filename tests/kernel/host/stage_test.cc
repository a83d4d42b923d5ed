// The staged trees: named by what is in them, laid once, whole or not there.

#include "host/stage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "host/stage_trees.h"
#include "registry/layout.h"
#include "rig.h"
#include "synced.h"

using namespace mosaic;
using namespace mosaic::test;
using harness::StagedFile;

namespace {

namespace fs = std::filesystem;

struct Staging {
    Staging() {
        auto opened = host::open_data_root(scratch / "data", "acme");
        if (!opened) {
            FAIL(opened.error().text);
        }
        root = std::move(*opened);
        put(scratch.fd(), "runner", "the runner");
    }

    Result<std::string> stage(const std::vector<StagedFile>& files) {
        return host::stage_tree(root, scratch / "runner", files);
    }

    size_t trees() {
        return static_cast<size_t>(std::distance(
            fs::directory_iterator(registry::stage_dir(root.path)), fs::directory_iterator()));
    }

    Scratch scratch;
    host::DataRoot root;
};

const std::vector<StagedFile> kFiles{{"module/adapter.sh", "echo hi\n", 0400},
                                     {"module/lib/deep/helper", "x", 0500}};

}  // namespace

TEST_CASE("a tree has the runner and the module's files, read-only, in private directories") {
    Staging here;
    const auto path = here.stage(kFiles);
    REQUIRE(path.has_value());
    CHECK(path->starts_with(registry::stage_dir(here.root.path) + "/"));
    CHECK(path->size() == registry::stage_dir(here.root.path).size() + 1 + 64);
    CHECK(content(AT_FDCWD, *path + "/mosaic-runner") == "the runner");
    CHECK(mode_of(AT_FDCWD, *path + "/mosaic-runner") == 0500);
    CHECK(content(AT_FDCWD, *path + "/module/adapter.sh") == "echo hi\n");
    CHECK(mode_of(AT_FDCWD, *path + "/module/adapter.sh") == 0400);
    CHECK(mode_of(AT_FDCWD, *path + "/module/lib/deep/helper") == 0500);
    for (const char* directory : {"", "/module", "/module/lib", "/module/lib/deep"}) {
        CHECK(mode_of(AT_FDCWD, *path + directory) == 0700);
    }
    CHECK(here.trees() == 1);
}

TEST_CASE("the same content is the same tree, used again as it is") {
    Staging here;
    const auto first = here.stage(kFiles);
    REQUIRE(first.has_value());

    struct stat before {};

    REQUIRE(::stat((*first + "/mosaic-runner").c_str(), &before) == 0);
    const auto again = here.stage({kFiles[1], kFiles[0]});
    REQUIRE(again.has_value());
    CHECK(*again == *first);

    struct stat after {};

    REQUIRE(::stat((*first + "/mosaic-runner").c_str(), &after) == 0);
    CHECK(before.st_ino == after.st_ino);
    CHECK(here.trees() == 1);
}

TEST_CASE("another content, path or mode is another tree, and the old one stays") {
    Staging here;
    const auto first = here.stage(kFiles);
    REQUIRE(first.has_value());
    std::vector<std::vector<StagedFile>> others(3, kFiles);
    others[0][0].content = "echo ho\n";
    others[1][0].path = "module/other.sh";
    others[2][0].mode = 0500;
    for (const auto& files : others) {
        const auto path = here.stage(files);
        REQUIRE(path.has_value());
        CHECK(*path != *first);
    }
    put(here.scratch.fd(), "runner", "a newer runner");
    const auto newer = here.stage(kFiles);
    REQUIRE(newer.has_value());
    CHECK(content(AT_FDCWD, *newer + "/mosaic-runner") == "a newer runner");
    CHECK(content(AT_FDCWD, *first + "/mosaic-runner") == "the runner");
    CHECK(here.trees() == 5);
}

TEST_CASE("what a host that died left half written is replaced") {
    Staging here;
    const auto path = here.stage(kFiles);
    REQUIRE(path.has_value());
    const std::string half = *path + ".tmp";
    REQUIRE(::rename(path->c_str(), half.c_str()) == 0);
    REQUIRE(::unlink((half + "/module/adapter.sh").c_str()) == 0);
    put(AT_FDCWD, half + "/module/stranger", "not of this tree");
    REQUIRE(::chmod((half + "/module").c_str(), 0) == 0);
    const auto again = here.stage(kFiles);
    REQUIRE(again.has_value());
    CHECK(*again == *path);
    CHECK(content(AT_FDCWD, *path + "/module/adapter.sh") == "echo hi\n");
    CHECK_FALSE(mode_of(AT_FDCWD, *path + "/module/stranger"));
    CHECK(here.trees() == 1);
}

TEST_CASE("trees reach the child that lays them as they are, and cut ones don't") {
    const std::vector<host::StagedTree> trees{{"d1", kFiles}, {"d2", {}}};
    const std::string bytes = host::encode_trees(trees);
    const auto read = host::decode_trees(bytes);
    REQUIRE(read.has_value());
    CHECK(*read == trees);
    for (size_t size = 0; size < bytes.size(); ++size) {
        CHECK_FALSE(host::decode_trees(bytes.substr(0, size)));
    }
    CHECK_FALSE(host::decode_trees(bytes + "x"));
    CHECK_FALSE(host::decode_trees(std::string(bytes.size(), '\xff')));
}

TEST_CASE("a runner that can't be read stages nothing and is named") {
    Staging here;
    const auto path = host::stage_tree(here.root, here.scratch / "missing", kFiles);
    REQUIRE_FALSE(path.has_value());
    CHECK(path.error().text.find(here.scratch / "missing") != std::string::npos);
    CHECK(here.trees() == 0);
}

TEST_CASE("the tree's modes don't depend on the umask") {
    Staging here;
    const mode_t before = ::umask(0);
    const auto open = here.stage(kFiles);
    ::umask(before);
    REQUIRE(open.has_value());
    CHECK(mode_of(AT_FDCWD, *open) == 0700);
    CHECK(mode_of(AT_FDCWD, *open + "/module/lib/deep") == 0700);
    CHECK(mode_of(AT_FDCWD, *open + "/module/adapter.sh") == 0400);
}

TEST_CASE("a tree is on the disk, with all its names, before it has its own name") {
    Staging here;
    synced().clear();
    const auto path = here.stage(kFiles);
    REQUIRE(path.has_value());
    for (const char* part : {"",
                             "/mosaic-runner",
                             "/module",
                             "/module/adapter.sh",
                             "/module/lib",
                             "/module/lib/deep",
                             "/module/lib/deep/helper"}) {
        CAPTURE(part);
        CHECK(was_synced(*path + ".tmp" + part));
    }
}

TEST_CASE("trees that nobody uses are set aside and removed and those in use stay") {
    Staging here;
    const auto used = here.stage(kFiles);
    const auto old = here.stage({kFiles[0]});
    REQUIRE(used.has_value());
    REQUIRE(old.has_value());
    const std::string half = std::string(64, 'a') + ".tmp";
    put(AT_FDCWD, registry::stage_dir(here.root.path) + "/stranger", "not a tree");
    REQUIRE(::mkdirat(here.root.stage.get(), half.c_str(), 0700) == 0);
    const std::string digest = old->substr(old->rfind('/') + 1);
    auto waste = host::set_trees_aside(here.root.stage.get(), {used->substr(used->rfind('/') + 1)});
    std::sort(waste.begin(), waste.end());
    std::vector<std::string> expected = {half, digest + ".gone"};
    std::sort(expected.begin(), expected.end());
    CHECK(waste == expected);
    // It can be staged again before the old one is gone, and an old one again waits for that.
    REQUIRE(here.stage({kFiles[0]}).has_value());
    waste = host::set_trees_aside(here.root.stage.get(), {});
    CHECK(std::find(waste.begin(), waste.end(), digest + ".gone") != waste.end());
    CHECK(content(AT_FDCWD, *old + "/mosaic-runner") == "the runner");
    CHECK(host::remove_in_stage(here.root.stage.get(), waste) == 0);
    CHECK(host::remove_in_stage(here.root.stage.get(), {digest}) == 2);
    CHECK(content(AT_FDCWD, *old + "/mosaic-runner") == "the runner");
    CHECK(here.trees() == 2);
}
