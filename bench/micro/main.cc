// mosaic-bench-micro: what single steps of the product take by themselves, measured by Google
// Benchmark, whose options it has. It links the product's own libraries: what is measured is what
// runs. Never installed.

#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "bench/micro/micro.h"

namespace mosaic::bench {
namespace {

std::string directory;
bool any_broken = false;

void remove_directory() {
    std::error_code error;
    std::filesystem::remove_all(directory, error);
}

// SIGINT and SIGTERM take the directory away, whatever is being measured.
void clean_up_when_interrupted() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::thread([set] {
        int got = 0;
        if (::sigwait(&set, &got) == 0) {
            remove_directory();
            ::_exit(1);
        }
    }).detach();
}

int run(int argc, char** argv) {
    std::string pattern = "/var/tmp/mosaic-micro.XXXXXX";
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 4;
    }
    if (::mkdtemp(pattern.data()) == nullptr) {
        std::perror(pattern.c_str());
        return 1;
    }
    directory = pattern;
    // As the host does (TRAP-07).
    ::signal(SIGPIPE, SIG_IGN);
    clean_up_when_interrupted();
    const size_t ran = benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    remove_directory();
    return ran == 0 || any_broken ? 1 : 0;
}

}  // namespace

const std::string& micro_directory() {
    return directory;
}

void broken(benchmark::State& state, const std::string& why) {
    any_broken = true;
    state.SkipWithError(why.c_str());
}

}  // namespace mosaic::bench

int main(int argc, char** argv) {
    return mosaic::bench::run(argc, argv);
}
