#include "base/error.h"

#include <cstring>

namespace mosaic {

tl::unexpected<Error> fail(Code code, std::string text) {
    return tl::unexpected<Error>(Error{code, 0, std::move(text)});
}

tl::unexpected<Error> fail_sys(int sys, std::string_view what) {
    std::string text(what);
    text += ": ";
    text += errno_text(sys);
    return tl::unexpected<Error>(Error{Code::system, sys, std::move(text)});
}

std::string errno_text(int sys) {
    const char* text = strerrordesc_np(sys);
    return text != nullptr ? std::string(text) : "error " + std::to_string(sys);
}

}  // namespace mosaic
