// tools/tidy finds what it is for: each case breaks one rule in a small tree that is otherwise
// right.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

namespace {

struct Verdict {
    int status = -1;
    std::string text;
};

// A tree with the rooms base, wire and reactor, removed at the end.
class SmallTree {
  public:
    SmallTree() : root_(MOSAIC_BUILD_DIR "/tidy-XXXXXX") {
        REQUIRE(::mkdtemp(root_.data()) != nullptr);
        write("docs/rooms.md",
              "# Rooms\n| room | may include |\n| --- | --- |\n| base | nothing |\n"
              "| wire | base |\n| reactor | base |\n");
        write("docs/TRAPS.md", "| # | Fact | Rule |\n| --- | --- | --- |\n| 01 | a | b |\n");
        for (const char* room : {"base", "wire", "reactor"}) {
            const std::string name = room;
            const std::string at = "src/" + name + "/";
            const std::string depends = name == "base" ? "" : " DEPENDS base";
            write(at + "README.md", "# " + name + "\n");
            write(at + "a.h", "#pragma once\n");
            write(at + "a.cc", "#include \"" + name + "/a.h\"\n");
            write(at + "CMakeLists.txt", "mosaic_room(" + name + " SOURCES a.cc" + depends + ")\n");
        }
    }

    SmallTree(const SmallTree&) = delete;
    SmallTree& operator=(const SmallTree&) = delete;

    ~SmallTree() { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root_ + "/" + path).parent_path());
        std::ofstream(root_ + "/" + path, std::ios::binary) << text;
    }

    [[nodiscard]] Verdict judge() const {
        Verdict verdict;
        const std::string command = std::string(TIDY) + " " + root_ + " 2>&1";
        FILE* pipe = ::popen(command.c_str(), "re");
        REQUIRE(pipe != nullptr);
        std::array<char, 4096> part{};
        size_t size = 0;
        while ((size = std::fread(part.data(), 1, part.size(), pipe)) > 0) {
            verdict.text.append(part.data(), size);
        }
        const int status = ::pclose(pipe);
        verdict.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return verdict;
    }

  private:
    std::string root_;
};

// The tree with `text` in `path` has exactly one finding, at that file and line.
void check_one(const std::string& path,
               const std::string& text,
               size_t line,
               const std::string& says) {
    const SmallTree tree;
    tree.write(path, text);
    const Verdict verdict = tree.judge();
    CAPTURE(path);
    CAPTURE(verdict.text);
    CHECK(verdict.status == 1);
    CHECK(verdict.text.find(path + ":" + std::to_string(line) + ": ") != std::string::npos);
    CHECK(verdict.text.find(says) != std::string::npos);
    CHECK(verdict.text.find(", 1 findings\n") != std::string::npos);
}

void check_none(const std::string& path, const std::string& text) {
    const SmallTree tree;
    tree.write(path, text);
    const Verdict verdict = tree.judge();
    CAPTURE(path);
    CAPTURE(verdict.text);
    CHECK(verdict.status == 0);
}

}  // namespace

TEST_CASE("a tree in order has no findings") {
    const SmallTree tree;
    const Verdict verdict = tree.judge();
    CAPTURE(verdict.text);
    CHECK(verdict.status == 0);
    CHECK(verdict.text == "tidy: 12 files, 0 findings\n");
}

TEST_CASE("a tree without its table of rooms is an error") {
    const SmallTree tree;
    tree.write("docs/rooms.md", "nothing here\n");
    CHECK(tree.judge().status == 2);
}

TEST_CASE("a room includes only what the table allows") {
    check_one("src/base/a.h", "#pragma once\n#include \"wire/a.h\"\n", 2, "may not include wire");
    check_one("src/wire/a.cc", "#include \"reactor/a.h\"\n", 1, "may not include reactor");
    check_one("src/wire/a.cc", "#include \"a.h\"\n", 1, "\"room/file.h\"");
    check_none("src/wire/a.cc", "#include \"base/a.h\"\n#include <vector>\n");
}

TEST_CASE("a room's CMakeLists.txt names what it includes, and only what is allowed") {
    check_one("src/wire/CMakeLists.txt",
              "mosaic_room(wire SOURCES a.cc\n  DEPENDS base reactor)\n",
              1,
              "depends on reactor");
    const SmallTree tree;
    tree.write("src/wire/CMakeLists.txt", "mosaic_room(wire SOURCES a.cc)\n");
    tree.write("src/wire/a.cc", "#include \"base/a.h\"\n");
    CHECK(tree.judge().text.find("doesn't name base") != std::string::npos);
}

TEST_CASE("a library that a room makes beside itself counts as that room") {
    const SmallTree tree;
    tree.write("docs/rooms.md", "| base | nothing |\n| wire | base |\n| reactor | base, wire |\n");
    tree.write("src/wire/CMakeLists.txt",
               "mosaic_room(wire SOURCES a.cc)\nadd_library(mosaic-wire-extra STATIC a.cc)\n");
    tree.write("src/reactor/CMakeLists.txt",
               "mosaic_room(reactor SOURCES a.cc DEPENDS wire-extra)\n");
    tree.write("src/reactor/a.cc", "#include \"wire/a.h\"\n");
    const Verdict verdict = tree.judge();
    CAPTURE(verdict.text);
    CHECK(verdict.status == 0);
}

TEST_CASE("a room without a row in the table is found") {
    const SmallTree tree;
    tree.write("src/extra/a.h", "#pragma once\n");
    CHECK(tree.judge().text.find("the room extra has no row") != std::string::npos);
}

TEST_CASE("liburing is included by the reactor alone") {
    check_one("src/wire/a.cc", "#include <liburing.h>\n", 1, "only src/reactor");
    check_none("src/reactor/a.cc", "#include <liburing.h>\n");
}

TEST_CASE("banned calls are found in code, not in comments, strings or longer names") {
    for (const char* call : {"system(x);",
                             "::popen(x, y);",
                             "fork();",
                             "syscall(SYS_clone3, x);",
                             "usleep(1);",
                             "std::this_thread::sleep_for(x);",
                             "std::cout << 1;",
                             "std::function<void()> f;",
                             "rand();",
                             "clock_gettime(0, x);",
                             "std::chrono::steady_clock::now();"}) {
        check_one("src/wire/a.cc", std::string("void f() {\n    ") + call + "\n}\n", 2, "not used");
    }
    check_none("src/wire/a.cc",
               "// system(x) /* fork() */\n/* usleep(1);\n popen( */\n"
               "const char* a = \"fork() \\\" rand()\";\nauto b = R\"x(system( )\" )x\";\n"
               "int big = 1'000'000; char quote = '\"'; void file_system(int); void grand();\n");
    check_one("src/wire/a.cc", "int big = 1'000'000;\nint r = rand();\n", 2, "rand( is not used");
    check_none("src/base/instant.cc.md", "clock_gettime(\n");
}

TEST_CASE("the clock source and the spawn may use what others may not") {
    const SmallTree tree;
    tree.write("src/base/instant.cc", "void f() { clock_gettime(0, 0); }\n");
    tree.write("src/base/CMakeLists.txt", "mosaic_room(base SOURCES a.cc instant.cc)\n");
    tree.write("docs/rooms.md",
               "| base | nothing |\n| wire | base |\n| reactor | base |\n| process | base |\n");
    tree.write("src/process/README.md", "# process\n");
    tree.write("src/process/spawn_child.cc", "void f() { syscall(SYS_clone3, 0); }\n");
    tree.write("src/process/CMakeLists.txt",
               "mosaic_room(process SOURCES spawn_child.cc DEPENDS base)\n");
    const Verdict verdict = tree.judge();
    CAPTURE(verdict.text);
    CHECK(verdict.status == 0);
}

TEST_CASE("a line ends at 100 columns, counted in characters, a file at 800 lines") {
    check_one("src/wire/a.cc", "int a;\n//" + std::string(99, 'x') + "\n", 2, "100 columns");
    check_none("src/wire/a.cc", "//" + std::string(98, 'x') + "\n");
    std::string umlauts = "//";
    for (int i = 0; i < 98; ++i) {
        umlauts += "\xC3\xBC";
    }
    check_none("src/wire/a.cc", umlauts + "\n");
    std::string lines;
    for (int i = 0; i < 800; ++i) {
        lines += "int a;\n";
    }
    check_none("src/wire/a.cc", lines);
    check_one("src/wire/a.cc", lines + "int b;\n", 800, "800 lines");
}

TEST_CASE("a source that no CMakeLists.txt names is found, in src and in tests") {
    check_one("src/wire/lost.cc", "int a;\n", 1, "no CMakeLists.txt names");
    check_one("tests/unit/wire/lost_test.cc", "int a;\n", 1, "no CMakeLists.txt names");
    const SmallTree tree;
    tree.write("tests/unit/wire/one_test.cc", "int a;\n");
    tree.write("tests/unit/wire/CMakeLists.txt",
               "mosaic_test(t SOURCES one_test.cc # two_test.cc\n)\n");
    CHECK(tree.judge().status == 0);
    tree.write("tests/unit/wire/two_test.cc", "int a;\n");
    CHECK(tree.judge().status == 1);
}

TEST_CASE("a trap's number is in docs/TRAPS.md, once") {
    check_none("src/wire/a.cc", "int a;  // TRAP-01\n");
    check_one("src/wire/a.cc", "int a;  // TRAP-01, TRAP-02\n", 1, "TRAP-02 is not in");
    const SmallTree tree;
    tree.write("docs/TRAPS.md", "| 01 | a | b |\n| 01 | c | d |\n");
    CHECK(tree.judge().text.find("two traps have the number 01") != std::string::npos);
}

TEST_CASE("unfinished work is found everywhere, by whole words") {
    // In two parts, so that this file is not found itself.
    for (const std::string& word : {std::string("TO") + "DO",
                                    std::string("FIX") + "ME",
                                    std::string("XX") + "X",
                                    std::string("HA") + "CK"}) {
        check_one("src/wire/a.cc", "// " + word + ": later\n", 1, word);
        check_one("tests/unit/wire/x.sh", "# " + word + "\n", 1, word);
        check_one("tools/run", "# " + word + "\n", 1, word);
        check_one("plugins/harness/m/adapter.sh", "# " + word + "\n", 1, word);
        check_none("src/wire/a.cc", "// " + word + "S and X" + word + "\n");
    }
}

TEST_CASE("the core names no harness, but protects the human's directories") {
    check_one("src/wire/a.cc", "// as Claude does\n", 1, "no harness");
    check_one("src/wire/a.cc", "const char* a = \"anthropic\";\n", 1, "no harness");
    check_one("src/wire/a.cc", "const char* a = \"pi\";\n", 1, "no harness");
    check_none("src/wire/a.cc", "const char* a = \".claude .pi\"; int pipe; int api;\n");
    check_none("plugins/harness/m/adapter.sh", "# claude, pi\n");
}

TEST_CASE("a header says #pragma once") {
    check_one("src/wire/b.h", "int a;\n", 1, "#pragma once");
}

TEST_CASE("a room has a README.md of at most 40 lines") {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
        lines += "x\n";
    }
    check_none("src/wire/README.md", lines);
    check_one("src/wire/README.md", lines + "x\n", 40, "40 lines");
    const SmallTree tree;
    tree.write("docs/rooms.md",
               "| base | nothing |\n| wire | base |\n| reactor | base |\n| host | base |\n");
    CHECK(tree.judge().status == 0);  // a room that isn't there yet
    tree.write("src/host/a.h", "#pragma once\n");
    CHECK(tree.judge().text.find("src/host/README.md:1: ") != std::string::npos);
}
