#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

// A directory of a test's own below the build directory, removed at the end, with a few verbs to
// lay things in it. Its path is a real path.
class Scratch {
  public:
    Scratch() {
        std::string path = MOSAIC_BUILD_DIR "/scratch-XXXXXX";
        if (::mkdtemp(path.data()) == nullptr) {
            std::abort();
        }
        path_ = std::filesystem::canonical(path).string();
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() { std::filesystem::remove_all(path_); }

    [[nodiscard]] const std::string& path() const { return path_; }

    // An absolute path below the scratch directory.
    [[nodiscard]] std::string operator/(const std::string& name) const {
        return path_ + "/" + name;
    }

    std::string directory(const std::string& name) const {
        std::filesystem::create_directories(*this / name);
        return *this / name;
    }

    std::string file(const std::string& name, const std::string& content = "x") const {
        std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
        std::ofstream(*this / name) << content;
        return *this / name;
    }

    std::string link(const std::string& target, const std::string& name) const {
        std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
        std::filesystem::create_symlink(target, *this / name);
        return *this / name;
    }

  private:
    std::string path_;
};
