#include <sys/xattr.h>

#include <cstring>

#include "scratch.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

std::string distrust(const std::string& path) {
    const auto checked = check_trusted(path);
    if (checked) {
        return "trusted";
    }
    CHECK(checked.error().code == Code::unsafe);
    return checked.error().text;
}

bool root_tests() {
    if (::geteuid() == 0) {
        return true;
    }
    MESSAGE("skipped: needs root to give files away");
    return false;
}

void give(const std::string& path, uid_t user, gid_t group) {
    REQUIRE(::lchown(path.c_str(), user, group) == 0);
}

}  // namespace

TEST_CASE("what root or we own and nobody else may write is trusted") {
    const Scratch scratch;
    scratch.directory("d");
    scratch.file("d/f");
    CHECK(distrust("/") == "trusted");
    CHECK(distrust("/etc/passwd") == "trusted");
    CHECK(distrust(scratch.at("d/f")) == "trusted");  // below the sticky /var/tmp
    CHECK(distrust(scratch.at("d/./../d//f")) == "trusted");
}

TEST_CASE("a file or directory that others may write is refused, with the path and why") {
    const Scratch scratch;
    scratch.directory("d");
    scratch.file("d/f", "", 0646);
    CHECK(distrust(scratch.at("d/f")) == "others may write " + scratch.at("d/f"));
    scratch.directory("w", 0757);
    scratch.file("w/f");
    CHECK(distrust(scratch.at("w/f")) == "others may write " + scratch.at("w"));
    CHECK(distrust(scratch.at("w")) == "others may write " + scratch.at("w"));
}

TEST_CASE("a sticky directory is trusted to hold things but not as the thing itself") {
    const Scratch scratch;
    scratch.directory("s", 01777);
    scratch.directory("s/d");
    scratch.file("s/f");
    CHECK(distrust(scratch.at("s/f")) == "trusted");
    CHECK(distrust(scratch.at("s/d")) == "trusted");
    CHECK(distrust(scratch.at("s")) == "others may write " + scratch.at("s"));
    CHECK(distrust(scratch.at("s/d/..")) == "others may write " + scratch.at("s"));
}

TEST_CASE("our primary group may write, another may not") {
    const Scratch scratch;
    scratch.file("f", "", 0664);
    CHECK(distrust(scratch.at("f")) == "trusted");
    if (root_tests()) {
        give(scratch.at("f"), 0, 7777);
        CHECK(distrust(scratch.at("f")) == "group 7777, not our own, may write " + scratch.at("f"));
        REQUIRE(::chmod(scratch.at("f").c_str(), 0644) == 0);
        CHECK(distrust(scratch.at("f")) == "trusted");
        scratch.directory("d", 0775);
        scratch.file("d/f");
        give(scratch.at("d"), 0, 7777);
        CHECK(distrust(scratch.at("d/f")) ==
              "group 7777, not our own, may write " + scratch.at("d"));
    }
}

TEST_CASE("an owner who is neither root nor us is refused, sticky directory or not") {
    if (!root_tests()) {
        return;
    }
    const Scratch scratch;
    scratch.directory("s", 01777);
    scratch.file("s/f", "", 0600);
    give(scratch.at("s/f"), 4242, 0);
    CHECK(distrust(scratch.at("s/f")) ==
          scratch.at("s/f") + " is owned by user 4242, neither root nor us");
    scratch.directory("d");
    scratch.file("d/f");
    give(scratch.at("d"), 4242, 0);
    CHECK(distrust(scratch.at("d/f")) ==
          scratch.at("d") + " is owned by user 4242, neither root nor us");

    // As another user, what root owns is trusted and what a third one owns isn't.
    give(scratch.at("s/f"), kOrdinaryUser, kOrdinaryUser);
    const AsOrdinaryUser ordinary;
    CHECK(distrust(scratch.at("s/f")) == "trusted");
    CHECK(distrust(scratch.at("s")).starts_with("others may write"));
}

TEST_CASE("a link is trusted only with its owner, its directory and all that it leads through") {
    const Scratch scratch;
    scratch.directory("good");
    scratch.file("good/f");
    scratch.directory("open", 0777);
    scratch.link("../good/f", "open/link");
    CHECK(distrust(scratch.at("open/link")) == "others may write " + scratch.at("open"));

    scratch.directory("back");
    scratch.file("open/f");
    scratch.link(scratch.at("open/f"), "back/out");
    CHECK(distrust(scratch.at("back/out")) == "others may write " + scratch.at("open"));

    scratch.link("back", "hop");
    scratch.link("../good", "back/in");
    CHECK(distrust(scratch.at("hop/in/f")) == "trusted");
    CHECK(distrust(scratch.at("hop/in/../good/f")) == "trusted");

    scratch.link("loop", "loop");
    CHECK(distrust(scratch.at("loop")).find("symbolic links") != std::string::npos);

    if (root_tests()) {
        scratch.directory("s", 01777);
        scratch.link("../good/f", "s/theirs");
        give(scratch.at("s/theirs"), 4242, 4242);
        CHECK(distrust(scratch.at("s/theirs")) ==
              scratch.at("s/theirs") + " is owned by user 4242, neither root nor us");
    }
}

TEST_CASE("an access list that may let others write is refused") {
    const Scratch scratch;
    scratch.file("f", "", 0660);

    // u::rw-, u:4242:rw-, g::---, m::rw-, o::--- in the kernel's own form
    // (linux/posix_acl_xattr.h).
    struct Entry {
        uint16_t tag;
        uint16_t permissions;
        uint32_t id;
    };

    struct List {
        uint32_t version;
        Entry entries[5];
    };

    const uint32_t none = ~0U;
    const List list{2, {{1, 6, none}, {2, 6, 4242}, {4, 0, none}, {16, 6, none}, {32, 0, none}}};
    if (::setxattr(scratch.at("f").c_str(), "system.posix_acl_access", &list, sizeof(list), 0) !=
        0) {
        MESSAGE("skipped: this file system has no access lists");
        return;
    }
    CHECK(distrust(scratch.at("f")) == "an access list may let others write " + scratch.at("f"));
}

TEST_CASE("what does not exist is missing and what is no absolute path is invalid") {
    const Scratch scratch;
    CHECK(check_trusted(scratch.at("none")).error().code == Code::missing);
    CHECK(check_trusted("etc/passwd").error().code == Code::invalid);
    CHECK(check_trusted("").error().code == Code::invalid);
    scratch.link("none", "dangling");
    CHECK(check_trusted(scratch.at("dangling")).error().code == Code::missing);
}
