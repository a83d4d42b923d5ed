// Runs a fuzz target over its corpus without libFuzzer: each argument is a file or a directory of
// files. Every input is also tried cut short and with a byte changed, which costs nothing and keeps
// the run from being a mere repetition. Ends with 1 when there was no input at all.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

// Of each input about so many places are cut or changed.
constexpr size_t kPlaces = 48;

void run(const std::string& input) {
    // A copy of exactly this size, so that the address sanitizer sees a read past its end.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

size_t replay(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    run(input);
    const size_t stride = 1 + input.size() / kPlaces;
    size_t runs = 1;
    for (size_t i = 0; i < input.size(); i += stride) {
        run(input.substr(0, i));
        std::string changed = input;
        changed[i] = static_cast<char>(changed[i] ^ static_cast<char>(1U << (i % 7)));
        run(changed);
        runs += 2;
    }
    return runs;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i) {
        if (!std::filesystem::is_directory(argv[i])) {
            files.emplace_back(argv[i]);
            continue;
        }
        for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    size_t runs = 0;
    for (const auto& file : files) {
        std::fprintf(stderr, "%s\n", file.c_str());  // the one that ends the program stands last
        runs += replay(file);
    }
    std::printf("%zu files, %zu inputs\n", files.size(), runs);
    return runs > 0 ? 0 : 1;
}
