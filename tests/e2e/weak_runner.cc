// The real runner, without one or the other of its protections: the words in WEAK_RUNNER say which
// ("dumpable", "scope", "limits"). Everything else of it is the product's own code; the linker puts
// the functions below in front of three that it calls.

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "runner/landlock.h"

namespace {

bool lacks(const char* word) {
    const char* words = std::getenv("WEAK_RUNNER");
    return words != nullptr && std::strstr(words, word) != nullptr;
}

}  // namespace

extern "C" {

int __real_prctl(int option, ...);
int __real_setrlimit(__rlimit_resource_t resource, const rlimit* limit);
int __wrap_prctl(int option, ...);
int __wrap_setrlimit(__rlimit_resource_t resource, const rlimit* limit);

int __wrap_prctl(int option, ...) {
    if (option == PR_SET_DUMPABLE && lacks("dumpable")) {
        return 0;
    }
    va_list list;
    va_start(list, option);
    unsigned long words[4] = {};
    for (unsigned long& word : words) {
        word = va_arg(list, unsigned long);
    }
    va_end(list);
    return __real_prctl(option, words[0], words[1], words[2], words[3]);
}

int __wrap_setrlimit(__rlimit_resource_t resource, const rlimit* limit) {
    return lacks("limits") ? 0 : __real_setrlimit(resource, limit);
}

}  // extern "C"

namespace mosaic::runner {

UniqueFd real_make_scope_ruleset() asm("__real__ZN6mosaic6runner18make_scope_rulesetEv");
UniqueFd wrapped_make_scope_ruleset() asm("__wrap__ZN6mosaic6runner18make_scope_rulesetEv");

UniqueFd wrapped_make_scope_ruleset() {
    return lacks("scope") ? UniqueFd() : real_make_scope_ruleset();
}

}  // namespace mosaic::runner
