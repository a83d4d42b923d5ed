// tidy ROOT: what the compiler can't check about this tree. Prints "file:line: what is wrong" and
// exits 1 when anything is. Each rule is one function; the table of rooms is docs/rooms.md.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr size_t kColumnsMax = 100;
constexpr size_t kLinesMax = 800;
constexpr size_t kReadmeLinesMax = 40;

struct File {
    std::string path;               // relative to the root, with '/'
    std::vector<std::string> raw;   // lines
    std::vector<std::string> code;  // the same without comments and literals; C++ only
};

struct Tree {
    std::vector<File> files;
    std::map<std::string, std::set<std::string>> rooms;  // what each may include
};

class Findings {
  public:
    void add(const std::string& path, size_t line, const std::string& text) {
        lines_.push_back(path + ":" + std::to_string(line) + ": " + text);
    }

    [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

  private:
    std::vector<std::string> lines_;
};

// --- text ---

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::vector<std::string> split_lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

std::string trim(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) {
        return {};
    }
    return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    return text;
}

// Where `word` stands in `line` with no letter, digit or underscore around it. An end that is not
// of that kind itself, such as the bracket of "f(", borders on anything.
bool has_word(std::string_view line, std::string_view word) {
    for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
        const size_t end = at + word.size();
        const bool starts = at == 0 || !is_word(word.front()) || !is_word(line[at - 1]);
        const bool ends = end == line.size() || !is_word(word.back()) || !is_word(line[end]);
        if (starts && ends) {
            return true;
        }
    }
    return false;
}

// Characters, not bytes: continuation bytes of UTF-8 don't count.
size_t columns(std::string_view line) {
    return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

// Replaces comments and the content of literals by blanks, keeping lines and columns.
class Blanker {
  public:
    explicit Blanker(std::string text) : text_(std::move(text)) {}

    std::string run() {
        while (at_ < text_.size()) {
            step();
        }
        return text_;
    }

  private:
    [[nodiscard]] bool starts(std::string_view what) const {
        return text_.compare(at_, what.size(), what) == 0;
    }

    void blank_to(size_t end) {
        for (end = std::min(end, text_.size()); at_ < end; ++at_) {
            if (text_[at_] != '\n') {
                text_[at_] = ' ';
            }
        }
    }

    void skip_word() {
        // A number may hold separators: 1'000.
        const bool number = std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
        while (at_ < text_.size() && (is_word(text_[at_]) || (number && text_[at_] == '\''))) {
            ++at_;
        }
        if (!number && text_[at_ - 1] == 'R' && at_ < text_.size() && text_[at_] == '"') {
            blank_raw_string();
        }
    }

    void blank_raw_string() {
        const size_t open = text_.find('(', at_);
        if (open == std::string::npos) {
            ++at_;
            return;
        }
        const std::string close = ")" + text_.substr(at_ + 1, open - at_ - 1) + "\"";
        const size_t end = text_.find(close, open);
        blank_to(end == std::string::npos ? text_.size() : end + close.size());
    }

    void blank_literal(char quote) {
        size_t end = at_ + 1;
        while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
            end += text_[end] == '\\' ? 2U : 1U;
        }
        blank_to(end + 1);
    }

    void step() {
        const char c = text_[at_];
        if (starts("//")) {
            const size_t end = text_.find('\n', at_);
            blank_to(end);
        } else if (starts("/*")) {
            const size_t end = text_.find("*/", at_ + 2);
            blank_to(end == std::string::npos ? end : end + 2);
        } else if (c == '"' || c == '\'') {
            blank_literal(c);
        } else if (is_word(c)) {
            skip_word();
        } else {
            ++at_;
        }
    }

    std::string text_;
    size_t at_ = 0;
};

// --- the tree ---

bool in(const File& file, std::string_view directory) {
    return file.path.compare(0, directory.size(), directory) == 0;
}

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_cxx(const File& file) {
    return ends_with(file.path, ".cc") || ends_with(file.path, ".h");
}

// "reactor" for src/reactor/ring.h; empty outside of rooms.
std::string room_of(const File& file) {
    if (!in(file, "src/")) {
        return {};
    }
    const size_t end = file.path.find('/', 4);
    return end == std::string::npos ? std::string() : file.path.substr(4, end - 4);
}

bool is_text(const fs::path& path) {
    static const std::set<std::string> kText = {
        "", ".cc", ".h", ".txt", ".cmake", ".md", ".sh", ".js", ".mjs", ".ts", ".json", ".py"};
    const bool corpus = path.string().find("/corpus/") != std::string::npos;
    return !corpus && kText.count(path.extension().string()) != 0;
}

bool read_file(const fs::path& path, std::string& text) {
    std::ifstream stream(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(stream), {});
    return stream.good() || stream.eof();
}

bool load(const fs::path& root, Tree& tree) {
    for (const char* top : {"bench", "src", "tests", "tools", "plugins"}) {
        if (!fs::is_directory(root / top)) {
            continue;
        }
        for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
            std::string text;
            if (!entry.is_regular_file() || entry.is_symlink() || !is_text(entry.path())) {
                continue;
            }
            if (!read_file(entry.path(), text)) {
                std::cerr << "tidy: can't read " << entry.path().string() << "\n";
                return false;
            }
            File file{fs::relative(entry.path(), root).generic_string(), split_lines(text), {}};
            if (is_cxx(file)) {
                file.code = split_lines(Blanker(text).run());
            }
            tree.files.push_back(std::move(file));
        }
    }
    std::sort(tree.files.begin(), tree.files.end(), [](const File& a, const File& b) {
        return a.path < b.path;
    });
    return true;
}

// The cells of a line "| a | b |".
std::vector<std::string> cells(const std::string& line) {
    std::vector<std::string> result;
    if (line.empty() || line.front() != '|') {
        return result;
    }
    std::istringstream stream(line.substr(1));
    for (std::string cell; std::getline(stream, cell, '|');) {
        result.push_back(trim(cell));
    }
    return result;
}

bool load_rooms(const fs::path& root, Tree& tree) {
    std::string text;
    if (!read_file(root / "docs/rooms.md", text)) {
        return false;
    }
    for (const std::string& line : split_lines(text)) {
        const std::vector<std::string> row = cells(line);
        if (row.size() < 2 || row[0] == "room" || row[0].find('-') == 0) {
            continue;
        }
        std::set<std::string>& may = tree.rooms[row[0]];
        std::istringstream names(row[1]);
        for (std::string name; std::getline(names, name, ',');) {
            if (trim(name) != "nothing") {
                may.insert(trim(name));
            }
        }
    }
    return !tree.rooms.empty();
}

// --- rules ---

// The name in #include "name" or #include <name>, with its opening sign; empty for another line.
std::string included(const std::string& line) {
    const std::string text = trim(line);
    if (text.empty() || text.front() != '#' || text.find("include") == std::string::npos) {
        return {};
    }
    const size_t open = text.find_first_of("\"<");
    if (open == std::string::npos) {
        return {};
    }
    const size_t close = text.find_first_of("\">", open + 1);
    return close == std::string::npos ? std::string() : text.substr(open, close - open);
}

// The words of a CMakeLists.txt without its comments; a bracket is a word of its own.
std::vector<std::string> cmake_words(const File& file) {
    std::vector<std::string> words;
    for (const std::string& line : file.raw) {
        std::string text;
        for (const char c : line.substr(0, line.find('#'))) {
            const bool bracket = c == '(' || c == ')';
            text.append(bracket ? 1 : 0, ' ');
            text.push_back(c);
            text.append(bracket ? 1 : 0, ' ');
        }
        std::istringstream stream(text);
        for (std::string word; stream >> word;) {
            words.push_back(word);
        }
    }
    return words;
}

// The room that makes the library mosaic-<name>: itself for a room, wire for json-simdjson.
std::string room_of_library(const Tree& tree, const std::string& name) {
    if (tree.rooms.count(name) != 0) {
        return name;
    }
    for (const File& file : tree.files) {
        if (room_of(file).empty() || !ends_with(file.path, "/CMakeLists.txt")) {
            continue;
        }
        const std::vector<std::string> words = cmake_words(file);
        for (size_t i = 2; i < words.size(); ++i) {
            if (words[i] == "mosaic-" + name && words[i - 2] == "add_library") {
                return room_of(file);
            }
        }
    }
    return name;
}

// Rooms named after DEPENDS in mosaic_room(room ...); false when there is no such call.
bool declared_depends(const Tree& tree, const std::string& room, std::set<std::string>& depends) {
    const auto file = std::find_if(tree.files.begin(), tree.files.end(), [&](const File& f) {
        return f.path == "src/" + room + "/CMakeLists.txt";
    });
    if (file == tree.files.end()) {
        return false;
    }
    bool called = false;
    bool listing = false;
    const std::vector<std::string> words = cmake_words(*file);
    for (size_t i = 2; i < words.size(); ++i) {
        if (words[i] == room && words[i - 2] == "mosaic_room") {
            called = true;
        } else if (called && words[i] == ")") {
            return true;
        } else if (words[i] == "DEPENDS" || words[i] == "SOURCES" || words[i] == "LIBS") {
            listing = words[i] == "DEPENDS";
        } else if (called && listing) {
            depends.insert(room_of_library(tree, words[i]));
        }
    }
    return called;
}

void check_room_table(const Tree& tree, Findings& findings) {
    for (const auto& [room, may] : tree.rooms) {
        std::set<std::string> depends;
        if (!declared_depends(tree, room, depends)) {
            continue;
        }
        for (const std::string& other : depends) {
            if (may.count(other) == 0) {
                findings.add("src/" + room + "/CMakeLists.txt",
                             1,
                             "depends on " + other + ", which docs/rooms.md doesn't allow");
            }
        }
    }
}

void check_includes(const Tree& tree, const File& file, Findings& findings) {
    const std::string room = room_of(file);
    if (room.empty() || !is_cxx(file)) {
        return;
    }
    const auto row = tree.rooms.find(room);
    if (row == tree.rooms.end()) {
        findings.add(file.path, 1, "the room " + room + " has no row in docs/rooms.md");
        return;
    }
    std::set<std::string> depends;
    const bool declared = declared_depends(tree, room, depends);
    for (size_t i = 0; i < file.raw.size(); ++i) {
        const std::string name = included(file.raw[i]);
        if (name.compare(0, 9, "<liburing") == 0 && room != "reactor") {
            findings.add(file.path, i + 1, "only src/reactor includes liburing");
        }
        if (name.empty() || name.front() != '"') {
            continue;
        }
        const std::string other = name.substr(1, name.find('/') - 1);
        if (name.find('/') == std::string::npos || tree.rooms.count(other) == 0) {
            findings.add(file.path, i + 1, "includes are written \"room/file.h\"");
        } else if (other != room && row->second.count(other) == 0) {
            findings.add(file.path, i + 1, "docs/rooms.md says that it may not include " + other);
        } else if (other != room && declared && depends.count(other) == 0) {
            findings.add(file.path, i + 1, "DEPENDS in CMakeLists.txt doesn't name " + other);
        }
    }
}

struct Ban {
    const char* word;
    const char* allowed;  // files whose path starts so; empty: none
    const char* instead;
};

constexpr Ban kBans[] = {
    {"system(", "", "process/spawn.h"},
    {"popen(", "", "process/spawn.h"},
    {"fork(", "src/process/spawn", "process/spawn.h"},
    {"vfork(", "src/process/spawn", "process/spawn.h"},
    {"clone(", "src/process/spawn", "process/spawn.h"},
    {"clone3(", "src/process/spawn", "process/spawn.h"},
    {"syscall(SYS_clone", "src/process/spawn", "process/spawn.h"},
    {"syscall(SYS_clone3", "src/process/spawn", "process/spawn.h"},
    {"posix_spawn(", "src/process/spawn", "process/spawn.h"},
    {"posix_spawnp(", "src/process/spawn", "process/spawn.h"},
    {"sleep(", "", "a deadline and an event"},
    {"usleep(", "", "a deadline and an event"},
    {"nanosleep(", "", "a deadline and an event"},
    {"clock_nanosleep(", "", "a deadline and an event"},
    {"sleep_for", "", "a deadline and an event"},
    {"sleep_until", "", "a deadline and an event"},
    {"std::cout", "", "a write of whole lines"},
    {"std::function", "", "a template parameter or data"},
    {"rand(", "", "getrandom"},
    {"srand(", "", "getrandom"},
    {"clock_gettime(", "src/base/instant.cc", "base/instant.h"},
    {"gettimeofday(", "src/base/instant.cc", "base/instant.h"},
    {"time(nullptr)", "src/base/instant.cc", "base/instant.h"},
    {"steady_clock", "src/base/instant.cc", "base/instant.h"},
    {"system_clock", "src/base/instant.cc", "base/instant.h"},
};

void check_bans(const File& file, Findings& findings) {
    if (!in(file, "src/") || !is_cxx(file)) {
        return;
    }
    for (size_t i = 0; i < file.code.size(); ++i) {
        for (const Ban& ban : kBans) {
            if (*ban.allowed != '\0' && in(file, ban.allowed)) {
                continue;
            }
            if (has_word(file.code[i], ban.word)) {
                findings.add(file.path,
                             i + 1,
                             std::string(ban.word) + " is not used here; use " + ban.instead);
            }
        }
    }
}

void check_size(const File& file, Findings& findings) {
    if (!is_cxx(file)) {
        return;
    }
    if (file.raw.size() > kLinesMax) {
        findings.add(file.path, kLinesMax, "a file ends at 800 lines; split it");
    }
    for (size_t i = 0; i < file.raw.size(); ++i) {
        if (columns(file.raw[i]) > kColumnsMax) {
            findings.add(file.path, i + 1, "a line ends at 100 columns");
        }
    }
}

void check_pragma_once(const File& file, Findings& findings) {
    if (ends_with(file.path, ".h") &&
        std::find(file.raw.begin(), file.raw.end(), "#pragma once") == file.raw.end()) {
        findings.add(file.path, 1, "a header says #pragma once");
    }
}

// A source file that no CMakeLists.txt names is built by nobody.
void check_orphans(const Tree& tree, Findings& findings) {
    std::set<std::string> named;
    for (const File& file : tree.files) {
        if (!ends_with(file.path, "CMakeLists.txt")) {
            continue;
        }
        const std::string directory = file.path.substr(0, file.path.rfind('/') + 1);
        for (const std::string& word : cmake_words(file)) {
            // "${PROJECT_SOURCE_DIR}/tests/a.cc" is taken from the root, "a.cc" from the directory.
            const size_t variable = word.find("}/");
            if (variable != std::string::npos) {
                named.insert(word.substr(variable + 2));
            }
            named.insert(fs::path(directory + word).lexically_normal().generic_string());
        }
    }
    for (const File& file : tree.files) {
        // tests/doctest_main.cc is named by cmake/rooms.cmake, for every test.
        if (ends_with(file.path, ".cc") && file.path != "tests/doctest_main.cc" &&
            named.count(file.path) == 0) {
            findings.add(file.path, 1, "no CMakeLists.txt names this file");
        }
    }
}

void check_traps(const fs::path& root, const Tree& tree, Findings& findings) {
    std::string text;
    read_file(root / "docs/TRAPS.md", text);
    std::set<std::string> known;
    for (const std::string& line : split_lines(text)) {
        const std::vector<std::string> row = cells(line);
        const bool number = !row.empty() && row[0].size() == 2 &&
                            std::isdigit(static_cast<unsigned char>(row[0][0])) != 0;
        if (number && !known.insert(row[0]).second) {
            findings.add("docs/TRAPS.md", 1, "two traps have the number " + row[0]);
        }
    }
    const std::string mark = "TRAP-";
    for (const File& file : tree.files) {
        for (size_t i = 0; is_cxx(file) && i < file.raw.size(); ++i) {
            const std::string& line = file.raw[i];
            for (size_t at = line.find(mark); at != std::string::npos;
                 at = line.find(mark, at + 1)) {
                const std::string number = line.substr(at + mark.size(), 2);
                const bool digits = std::all_of(number.begin(), number.end(), [](unsigned char c) {
                    return std::isdigit(c) != 0;
                });
                if (digits && !number.empty() && known.count(number) == 0) {
                    findings.add(file.path, i + 1, mark + number + " is not in docs/TRAPS.md");
                }
            }
        }
    }
}

// As a word. With a dot in front it is a directory of the human's home, which the core protects.
bool names_harness(const std::string& line, std::string_view name) {
    std::string text = line;
    std::string dotted(1, '.');
    dotted += name;
    for (size_t at = text.find(dotted); at != std::string::npos; at = text.find(dotted, at)) {
        text.erase(at, dotted.size());
    }
    return has_word(text, name);
}

void check_words(const File& file, Findings& findings) {
    // In two parts each, so that this file doesn't find itself.
    static const std::string kUnfinished[] = {
        "TO"
        "DO",
        "FIX"
        "ME",
        "XX"
        "X",
        "HA"
        "CK"};
    for (size_t i = 0; i < file.raw.size(); ++i) {
        for (const std::string& word : kUnfinished) {
            if (has_word(file.raw[i], word)) {
                findings.add(file.path, i + 1, word + ": finish it, or say what holds");
            }
        }
        const std::string line = in(file, "src/") ? lower(file.raw[i]) : std::string();
        for (const char* harness : {"claude", "anthropic", "pi"}) {
            if (names_harness(line, harness)) {
                findings.add(
                    file.path, i + 1, std::string("the core names no harness (") + harness + ")");
            }
        }
    }
}

void check_readmes(const fs::path& root, const Tree& tree, Findings& findings) {
    for (const auto& [room, may] : tree.rooms) {
        if (!fs::is_directory(root / "src" / room)) {
            continue;
        }
        const std::string path = "src/" + room + "/README.md";
        const auto readme = std::find_if(
            tree.files.begin(), tree.files.end(), [&](const File& f) { return f.path == path; });
        if (readme == tree.files.end()) {
            findings.add(
                path, 1, "a room says in a README.md what it decides and what it never does");
        } else if (readme->raw.size() > kReadmeLinesMax) {
            findings.add(path, kReadmeLinesMax, "a room's README.md ends at 40 lines");
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: tidy ROOT\n";
        return 2;
    }
    const fs::path root = argv[1];
    Tree tree;
    if (!load_rooms(root, tree)) {
        std::cerr << "tidy: " << root.string() << "/docs/rooms.md has no table of rooms\n";
        return 2;
    }
    if (!load(root, tree)) {
        return 2;
    }
    Findings findings;
    check_room_table(tree, findings);
    check_orphans(tree, findings);
    check_traps(root, tree, findings);
    check_readmes(root, tree, findings);
    for (const File& file : tree.files) {
        check_includes(tree, file, findings);
        check_bans(file, findings);
        check_size(file, findings);
        check_pragma_once(file, findings);
        check_words(file, findings);
    }
    for (const std::string& line : findings.lines()) {
        std::printf("%s\n", line.c_str());  // NOLINT(cert-err33-c): the exit code counts
    }
    // NOLINTNEXTLINE(cert-err33-c)
    std::printf("tidy: %zu files, %zu findings\n", tree.files.size(), findings.lines().size());
    return findings.lines().empty() ? 0 : 1;
}
