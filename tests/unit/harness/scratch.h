#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

// A directory of a test's own below the build directory, removed at its end.
struct Scratch {
    std::string path;

    Scratch() {
        std::string name = std::string(MOSAIC_BUILD_DIR) + "/harness-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = std::filesystem::canonical(name).string();
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() { std::filesystem::remove_all(path); }

    std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
        const std::string file = path + "/" + name;
        std::filesystem::create_directories(std::filesystem::path(file).parent_path());
        std::ofstream(file) << text;
        REQUIRE(::chmod(file.c_str(), mode) == 0);
        return file;
    }
};
