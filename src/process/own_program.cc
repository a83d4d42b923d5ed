#include "process/own_program.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mosaic::process {

Result<std::string> own_executable() {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink("/proc/self/exe", target.data(), target.size());
    if (length < 0) {
        return fail_sys(errno, "/proc/self/exe");
    }
    return std::string(target.data(), static_cast<size_t>(length));
}

Result<std::string> find_beside(const std::string& name) {
    MOSAIC_TRY_ASSIGN(const std::string own, own_executable());
    const std::string directory = own.substr(0, own.rfind('/'));
    const std::string parent = directory.substr(0, directory.rfind('/'));
    const std::array<std::string, 2> places = {directory + "/" + name,
                                               parent + "/libexec/mosaic/" + name};
    for (const std::string& place : places) {
        if (::access(place.c_str(), X_OK) == 0) {
            return place;
        }
    }
    return fail(Code::missing, name + " is neither " + places[0] + " nor " + places[1]);
}

}  // namespace mosaic::process
