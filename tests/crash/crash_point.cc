// What a crash point does in the programs that are built for the tests.
//
// The environment variable MOSAIC_CRASH names a directory of the test's. In it:
//   armed     "<point> <hit>\n": the process that passes the point for that time takes the file
//             away and kills itself, so that whoever is started after it lives
//   passed    each point that is passed, one a line, in order
// Without the variable, nothing.

#include "base/crash_point.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

namespace mosaic {
namespace {

constexpr const char* kVariable = "MOSAIC_CRASH";

struct Armed {
    std::string directory;  // empty: no test wants anything
    std::string point;      // empty: none is armed
    int hit = 0;

    Armed() {
        const char* given = std::getenv(kVariable);
        if (given == nullptr) {
            return;
        }
        directory = given;
        std::ifstream in(directory + "/armed");
        in >> point >> hit;
    }
};

Armed& armed() {
    static Armed instance;
    return instance;
}

void note(const std::string& directory, const std::string& point) {
    const std::string path = directory + "/passed";
    const std::string line = point + "\n";
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        std::abort();
    }
    ::close(fd);
}

}  // namespace

void crash_point(std::string_view part, std::string_view moment, std::string_view what) {
    Armed& here = armed();
    if (here.directory.empty()) {
        return;
    }
    std::string point(part);
    point.append(".").append(moment).append(".").append(what);
    note(here.directory, point);
    if (point == here.point && --here.hit == 0) {
        ::unlink((here.directory + "/armed").c_str());
        std::raise(SIGKILL);
    }
}

void pass_crash_points(std::vector<std::string>& env) {
    const char* given = std::getenv(kVariable);
    if (given != nullptr) {
        env.push_back(std::string(kVariable) + "=" + given);
    }
}

}  // namespace mosaic
