#include "process/files.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "scratch.h"
#include "synced.h"

using namespace mosaic;
using namespace mosaic::process;
using namespace mosaic::test;

namespace {

mode_t mode_of(const std::string& path) {
    struct stat info {};

    REQUIRE(::lstat(path.c_str(), &info) == 0);
    return info.st_mode & 07777U;
}

std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    DIR* directory = ::opendir(path.c_str());
    REQUIRE(directory != nullptr);
    while (const dirent* entry = ::readdir(directory)) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") {
            names.push_back(name);
        }
    }
    ::closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
}

template <class T>
Code code_of(const Result<T>& result) {
    REQUIRE_FALSE(result.has_value());
    return result.error().code;
}

}  // namespace

TEST_CASE("a private directory is real, ours and 0700, or it is refused") {
    const Scratch scratch;
    scratch.directory("good", 0700);
    CHECK(open_private_directory(scratch.fd(), "good").has_value());
    for (const mode_t mode : {0755U, 0770U, 0701U, 0500U, 0000U, 01777U}) {
        CAPTURE(mode);
        const std::string name = "mode" + std::to_string(mode);
        scratch.directory(name, mode);
        const auto opened = open_private_directory(scratch.fd(), name);
        CHECK(code_of(opened) == Code::unsafe);
        CHECK(opened.error().text.find("mode") != std::string::npos);
    }
    scratch.link("good", "link");
    CHECK(code_of(open_private_directory(scratch.fd(), "link")) == Code::unsafe);
    scratch.file("file");
    CHECK(code_of(open_private_directory(scratch.fd(), "file")) == Code::unsafe);
    CHECK(code_of(open_private_directory(scratch.fd(), "absent")) == Code::missing);
}

TEST_CASE("a private directory of another user is refused") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: needs root to give a directory away");
        return;
    }
    const Scratch scratch;
    scratch.directory("theirs", 0700);
    REQUIRE(::chown(scratch.at("theirs").c_str(), kOrdinaryUser, kOrdinaryUser) == 0);
    CHECK(code_of(open_private_directory(scratch.fd(), "theirs")) == Code::unsafe);
    CHECK(code_of(make_private_directory(scratch.fd(), "theirs")) == Code::unsafe);
}

TEST_CASE("a directory of our own without its read bit is unsafe, not unreadable") {
    const Scratch scratch;
    scratch.directory("open", 0777);
    const AsOrdinaryUser ordinary;
    scratch.directory("open/shut", 0000);
    const auto parent = open_directory(scratch.at("open"));
    REQUIRE(parent.has_value());
    CHECK(code_of(open_private_directory(parent->get(), "shut")) == Code::unsafe);
}

TEST_CASE("a private directory is made once and opened afterwards") {
    const Scratch scratch;
    const auto made = make_private_directory(scratch.fd(), "d");
    REQUIRE(made.has_value());
    CHECK(mode_of(scratch.at("d")) == 0700);
    REQUIRE(create_file(made->get(), "f", "x", 0600).has_value());
    const auto again = make_private_directory(scratch.fd(), "d");
    REQUIRE(again.has_value());
    CHECK(read_file_beneath(again->get(), "f", 10).value() == "x");
}

TEST_CASE("names that are no single segment never reach the disk") {
    const Scratch scratch;
    scratch.directory("d", 0700);
    for (const std::string& name : {std::string(),
                                    std::string("."),
                                    std::string(".."),
                                    std::string("d/.."),
                                    std::string("/etc"),
                                    std::string("a\0b", 3),
                                    std::string("d/")}) {
        CAPTURE(name);
        CHECK(code_of(open_private_directory(scratch.fd(), name)) == Code::invalid);
        CHECK(code_of(make_private_directory(scratch.fd(), name)) == Code::invalid);
        CHECK(code_of(create_file(scratch.fd(), name, "", 0600)) == Code::invalid);
        CHECK(code_of(replace_file(scratch.fd(), name, "", 0600)) == Code::invalid);
        CHECK(code_of(remove_tree(scratch.fd(), name)) == Code::invalid);
    }
    CHECK(names_in(scratch.path()) == std::vector<std::string>{"d"});
}

TEST_CASE("only regular files beneath the directory are read, and never more than asked") {
    const Scratch scratch;
    scratch.directory("d", 0700);
    scratch.file("d/ten", "0123456789");
    scratch.file("d/empty");
    CHECK(read_file_beneath(scratch.fd(), "d/ten", 10).value() == "0123456789");
    CHECK(read_file_beneath(scratch.fd(), "d/empty", 0).value().empty());
    CHECK(code_of(read_file_beneath(scratch.fd(), "d/ten", 9)) == Code::too_large);
    CHECK(read_tail_beneath(scratch.fd(), "d/ten", 4).value() == "6789");
    CHECK(read_tail_beneath(scratch.fd(), "d/ten", 10).value() == "0123456789");
    CHECK(read_tail_beneath(scratch.fd(), "d/empty", 4).value().empty());
    CHECK(code_of(read_tail_beneath(scratch.fd(), "d/none", 4)) == Code::missing);
    CHECK(code_of(read_file_beneath(scratch.fd(), "d/none", 9)) == Code::missing);
    CHECK(code_of(read_file_beneath(scratch.fd(), "d", 9)) == Code::unsafe);

    scratch.link("ten", "d/link");
    CHECK(code_of(read_file_beneath(scratch.fd(), "d/link", 10)) == Code::unsafe);
    scratch.link("d", "by");
    CHECK(code_of(read_file_beneath(scratch.fd(), "by/ten", 10)) == Code::unsafe);
    scratch.link("/etc/passwd", "d/far");
    CHECK(code_of(read_file_beneath(scratch.fd(), "d/far", 9)) == Code::unsafe);
    CHECK(code_of(read_file_beneath(scratch.fd(), "../" + scratch.path(), 9)) == Code::unsafe);
    CHECK(code_of(read_file_beneath(scratch.fd(), "/etc/passwd", 9)) == Code::unsafe);
    CHECK(code_of(read_file_beneath(scratch.fd(), "d/ten/x", 9)) == Code::unsafe);
}

TEST_CASE("a file of the directory itself is read without openat2") {
    using mosaic::process::read_file_in;
    const Scratch scratch;
    scratch.file("ten", "0123456789");
    scratch.directory("d", 0700);
    scratch.link("ten", "link");
    CHECK(read_file_in(scratch.fd(), "ten", 10).value() == "0123456789");
    CHECK(code_of(read_file_in(scratch.fd(), "ten", 9)) == Code::too_large);
    CHECK(code_of(read_file_in(scratch.fd(), "none", 9)) == Code::missing);
    CHECK(code_of(read_file_in(scratch.fd(), "link", 10)) == Code::unsafe);
    CHECK(code_of(read_file_in(scratch.fd(), "d", 9)) == Code::unsafe);
    CHECK(code_of(read_file_in(scratch.fd(), "d/ten", 9)) == Code::invalid);
}

TEST_CASE("a planted FIFO, socket or device blocks nobody and is refused") {
    const Scratch scratch;
    REQUIRE(::mkfifo(scratch.at("fifo").c_str(), 0600) == 0);
    CHECK(code_of(read_file_beneath(scratch.fd(), "fifo", 10)) == Code::unsafe);
    CHECK(code_of(read_file(scratch.at("fifo"), 10)) == Code::unsafe);

    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    scratch.at("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    CHECK(code_of(read_file_beneath(scratch.fd(), "socket", 10)) == Code::unsafe);
    CHECK(code_of(read_file(scratch.at("socket"), 10)) == Code::unsafe);
    CHECK(code_of(read_file("/dev/zero", 10)) == Code::unsafe);
    CHECK(code_of(read_file("/proc", 10)) == Code::unsafe);
}

TEST_CASE("another mount beneath a directory is not read") {
    const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    CHECK(code_of(read_file_beneath(root.get(), "proc/sys/kernel/ostype", 100)) == Code::unsafe);
}

TEST_CASE("a file is read whole by its path, links included, and bounded") {
    const Scratch scratch;
    const std::string big(size_t{300} * 1000, 'x');
    scratch.file("big", big);
    scratch.link("big", "link");
    CHECK(read_file(scratch.at("link"), big.size()).value() == big);
    CHECK(code_of(read_file(scratch.at("big"), big.size() - 1)) == Code::too_large);
    CHECK(code_of(read_file(scratch.at("none"), 1)) == Code::missing);
    // Files of /proc say that they have no bytes, and have some.
    CHECK(read_file("/proc/sys/kernel/ostype", 100).value() == "Linux\n");
    CHECK(code_of(read_file("/proc/sys/kernel/ostype", 5)) == Code::too_large);
}

TEST_CASE("a file is replaced whole, with its mode, and leaves no temporary name") {
    const Scratch scratch;
    const mode_t before = ::umask(0077);
    REQUIRE(replace_file(scratch.fd(), "f", "one", 0644).has_value());
    ::umask(before);
    CHECK(mode_of(scratch.at("f")) == 0644);
    REQUIRE(replace_file(scratch.fd(), "f", "two", 0600).has_value());
    CHECK(mode_of(scratch.at("f")) == 0600);
    CHECK(read_file(scratch.at("f"), 10).value() == "two");
    CHECK(names_in(scratch.path()) == std::vector<std::string>{"f"});
}

TEST_CASE("replacing a link replaces the link and not what it names") {
    const Scratch scratch;
    scratch.file("target", "kept");
    scratch.link("target", "f");
    REQUIRE(replace_file(scratch.fd(), "f", "new", 0600).has_value());
    CHECK(read_file(scratch.at("target"), 10).value() == "kept");
    CHECK(read_file_beneath(scratch.fd(), "f", 10).value() == "new");
}

TEST_CASE("a replacement that fails leaves the old file and nothing else") {
    const Scratch scratch;
    scratch.directory("f", 0700);
    scratch.file("f/inside");
    const auto replaced = replace_file(scratch.fd(), "f", "new", 0600);
    REQUIRE_FALSE(replaced.has_value());
    CHECK(replaced.error().sys == EISDIR);
    CHECK(names_in(scratch.path()) == std::vector<std::string>{"f"});
}

TEST_CASE("a file is rewritten only while it has the content that was read") {
    const Scratch scratch;
    scratch.file("f", "before", 0640);
    CHECK(*process::rewrite_file(scratch.fd(), "f", "before", "after"));
    CHECK(*process::read_file(scratch.at("f"), 100) == "after");
    CHECK(mode_of(scratch.at("f")) == 0640);
    for (const char* other : {"", "before", "afte", "after more"}) {
        CHECK_FALSE(*process::rewrite_file(scratch.fd(), "f", other, "x"));
    }
    CHECK(*process::read_file(scratch.at("f"), 100) == "after");
    // What isn't there is empty, and only that.
    CHECK_FALSE(*process::rewrite_file(scratch.fd(), "new", "y", "x"));
    CHECK_FALSE(scratch.exists("new"));
    CHECK(*process::rewrite_file(scratch.fd(), "new", "", "x"));
    CHECK(*process::read_file(scratch.at("new"), 100) == "x");
    scratch.link("f", "link");
    CHECK(process::rewrite_file(scratch.fd(), "link", "after", "x").error().code == Code::unsafe);
    CHECK(names_in(scratch.path()) == std::vector<std::string>{"f", "link", "new"});
}

TEST_CASE("what an editor saves while a file is rewritten isn't lost") {
    const Scratch scratch;
    const std::string file = scratch.at("f");
    size_t refused = 0;
    for (int round = 0; round < 200; ++round) {
        scratch.file("f", "before", 0600);
        scratch.file("saved", "edited", 0600);
        std::atomic<bool> goes_on = false;
        std::thread editor([&] {
            while (!goes_on) {
            }
            // At another moment each time.
            for (int i = 0; i < round * 200; ++i) {
                static_cast<void>(goes_on.load());
            }
            ::rename(scratch.at("saved").c_str(), file.c_str());
        });
        goes_on = true;
        const auto rewritten = process::rewrite_file(scratch.fd(), "f", "before", "after");
        editor.join();
        REQUIRE(rewritten.has_value());
        refused += *rewritten ? size_t{0} : size_t{1};
        REQUIRE(*process::read_file(file, 100) == "edited");
        REQUIRE(names_in(scratch.path()) == std::vector<std::string>{"f"});
        REQUIRE(::unlink(file.c_str()) == 0);
    }
    MESSAGE("of 200 changes " << refused << " were refused");
}

TEST_CASE("a rewritten file keeps its access list, or its group would get the list's mask") {
    const Scratch scratch;
    scratch.file("f", "before", 0640);
    // acl(5) as the kernel has it: version 2, then tag, rights and id of each entry. The owner,
    // user 1001, the group (nothing), the mask, others.
    constexpr const char* kAttribute = "system.posix_acl_access";
    std::string list("\x02\0\0\0", 4);
    for (const auto& [tag, rights, id] : std::vector<std::array<uint32_t, 3>>{
             {1, 6, ~0U}, {2, 4, 1001}, {4, 0, ~0U}, {0x10, 4, ~0U}, {0x20, 0, ~0U}}) {
        for (const uint32_t word : {tag | (rights << 16U), id}) {
            for (unsigned shift = 0; shift < 32; shift += 8) {
                list += static_cast<char>((word >> shift) & 0xFFU);
            }
        }
    }
    const std::string file = scratch.at("f");
    if (::setxattr(file.c_str(), kAttribute, list.data(), list.size(), 0) != 0) {
        REQUIRE(errno == ENOTSUP);
        MESSAGE("skipped: the file system of " << file << " has no access lists");
        return;
    }
    CHECK(*process::rewrite_file(scratch.fd(), "f", "before", "after"));
    std::string now(1024, '\0');
    const ssize_t bytes = ::getxattr(file.c_str(), kAttribute, now.data(), now.size());
    REQUIRE(bytes == static_cast<ssize_t>(list.size()));
    now.resize(list.size());
    CHECK(now == list);
    CHECK(mode_of(file) == 0640);
}

TEST_CASE("what a killed writer left beside a file goes, or is seen where it may be an edit") {
    const Scratch scratch;
    scratch.file("f", "before", 0600);
    scratch.file(".f.tmp4711-0", "edited", 0600);
    scratch.file(".f.tmp4711-1", "", 0600);
    scratch.file(".f.tmp4711-2", "another", 0600);
    // None of its making.
    const std::vector<std::string> others = {
        ".f.tmp-old", ".f.tmp4711-0~", ".g.tmp4711-0", "f.tmp1-0"};
    for (const std::string& other : others) {
        scratch.file(other.c_str(), "", 0600);
    }
    CHECK_FALSE(*process::rewrite_file(scratch.fd(), "f", "another", "after"));
    std::vector<std::string> left = others;
    left.emplace_back("f");
    left.emplace_back("f.left4711-0");
    std::sort(left.begin(), left.end());
    CHECK(names_in(scratch.path()) == left);
    CHECK(*process::read_file(scratch.at("f.left4711-0"), 100) == "edited");
    CHECK(*process::rewrite_file(scratch.fd(), "f", "before", "after"));
    CHECK(names_in(scratch.path()) == left);
}

TEST_CASE("a rewritten file stays its owner's") {
    if (::geteuid() != 0) {
        return;  // nobody else can give files away
    }
    const Scratch scratch;
    scratch.file("f", "before", 0600);
    REQUIRE(::chown(scratch.at("f").c_str(), kOrdinaryUser, kOrdinaryUser) == 0);
    CHECK(*process::rewrite_file(scratch.fd(), "f", "before", "after"));

    struct stat info {};

    REQUIRE(::stat(scratch.at("f").c_str(), &info) == 0);
    CHECK(info.st_uid == kOrdinaryUser);
    CHECK(info.st_gid == kOrdinaryUser);
}

TEST_CASE("a file is made only where there was none") {
    const Scratch scratch;
    scratch.link("elsewhere", "link");
    REQUIRE(create_file(scratch.fd(), "f", "content", 0640).has_value());
    CHECK(mode_of(scratch.at("f")) == 0640);
    CHECK(create_file(scratch.fd(), "f", "other", 0640).error().sys == EEXIST);
    CHECK(create_file(scratch.fd(), "link", "other", 0640).error().sys == EEXIST);
    CHECK(read_file(scratch.at("f"), 10).value() == "content");
    CHECK_FALSE(scratch.exists("elsewhere"));
}

TEST_CASE("directories are opened by absolute path, through links") {
    const Scratch scratch;
    scratch.directory("d");
    scratch.link("d", "l");
    scratch.file("f");
    CHECK(open_directory(scratch.at("l")).has_value());
    CHECK(code_of(open_directory("var/tmp")) == Code::invalid);
    CHECK(code_of(open_directory(scratch.at("none"))) == Code::missing);
    CHECK(open_directory(scratch.at("f")).error().sys == ENOTDIR);
}

TEST_CASE("the real path has no link in it and a missing one is named") {
    const Scratch scratch;
    scratch.directory("d");
    scratch.link("d", "l");
    CHECK(real_path(scratch.at("l/../l")).value() == scratch.at("d"));
    const auto missing = real_path(scratch.at("none"));
    CHECK(code_of(missing) == Code::missing);
    CHECK(missing.error().text.find(scratch.at("none")) != std::string::npos);
}

TEST_CASE("a replaced file is on the disk before its name is, and its name before the end") {
    const Scratch scratch;
    synced().clear();
    REQUIRE(replace_file(scratch.fd(), "kept", "new", 0600).has_value());
    REQUIRE(synced().size() == 2);
    CHECK(synced()[0].starts_with(scratch.path() + "/.kept.tmp"));
    CHECK(synced()[1] == scratch.path());
}
