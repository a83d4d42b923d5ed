// What needs neither disk nor kernel: the run machine, frames, the sandbox's command line.

#include <array>
#include <variant>

#include "bench/micro/micro.h"
#include "launch/run_machine.h"
#include "sandbox/binds.h"
#include "sandbox/layout.h"
#include "wire/messages.h"

namespace mosaic::bench {
namespace {

using launch::EventKind;

// A launch from its request to the session's end in the usual order.
constexpr std::array<EventKind, 13> kLife = {EventKind::authorized,
                                             EventKind::admitted,
                                             EventKind::prepared,
                                             EventKind::started,
                                             EventKind::runner_found,
                                             EventKind::bound,
                                             EventKind::recorded,
                                             EventKind::delivered,
                                             EventKind::claimed,
                                             EventKind::stop,
                                             EventKind::exited,
                                             EventKind::ended,
                                             EventKind::removed};

// One iteration is one step: that of each event of a life in turn.
void run_machine_step(benchmark::State& state) {
    launch::RunState run = launch::begin().next;
    size_t next = 0;
    for (auto _ : state) {
        launch::Step step = launch::step(run, {kLife[next], {}, EndReason::stopped});
        benchmark::DoNotOptimize(step);
        run = step.next;
        if (++next == kLife.size()) {
            if (run.phase != launch::Phase::over) {
                broken(state, "a life that isn't over");
                break;
            }
            next = 0;
            run = launch::begin().next;
        }
    }
}

BENCHMARK(run_machine_step);

wire::Request typical_request() {
    wire::MessageSendArgs message;
    message.to = {"coder", ""};
    message.message_class = wire::MessageClass::request;
    message.body = std::string(1000, 'x') + "\n\"quoted\" \xc3\xa4\n";
    wire::Request out;
    out.id = 17;
    out.verb = "message.send";
    out.cap = std::string(64, 'a');
    out.args = message.to_value();
    return out;
}

// message.send with a body of a kilobyte.
void frame_encode(benchmark::State& state) {
    const wire::Request request = typical_request();
    for (auto _ : state) {
        benchmark::DoNotOptimize(wire::encode(request));
    }
    state.SetBytesProcessed(state.iterations() *
                            static_cast<int64_t>(wire::encode(request).size()));
}

BENCHMARK(frame_encode);

// The same line to a request with its arguments checked, as the broker does it.
void frame_decode(benchmark::State& state) {
    std::string line = wire::encode(typical_request());
    line.pop_back();
    for (auto _ : state) {
        const auto frame = wire::decode_frame(line);
        const auto* request = frame ? std::get_if<wire::Request>(&*frame) : nullptr;
        if (request == nullptr || !wire::MessageSendArgs::from(request->args)) {
            broken(state, "the frame isn't a message.send");
            break;
        }
        benchmark::DoNotOptimize(frame);
    }
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(line.size()));
}

BENCHMARK(frame_decode);

// The binds of a launcher's session on this machine's layout, and bwrap's arguments made of them.
void bwrap_argv(benchmark::State& state) {
    sandbox::SandboxSpec spec;
    auto layout = sandbox::read_layout();
    if (!layout) {
        broken(state, layout.error().text);
        return;
    }
    spec.layout = std::move(*layout);
    spec.run_dir = "/home/jordan/.local/state/mosaic/acme/launches/acme/r0123456789ab";
    spec.stage_dir = "/home/jordan/.local/state/mosaic/acme/bus-host/stage/" + std::string(64, 'a');
    spec.workspace = "/home/jordan/mosaic/acme/pm";
    spec.bus_socket = "/home/jordan/.local/state/mosaic/acme/bus-host/bus.sock";
    spec.launch_socket = "/home/jordan/.local/state/mosaic/acme/bus-host/launch.sock";
    sandbox::BwrapOptions options;
    options.directory = spec.run_dir;
    options.seccomp_fd = sandbox::kSeccompFd;
    options.gate_fd = sandbox::kGateFd;
    size_t words = 0;
    for (auto _ : state) {
        const std::vector<std::string> argv = sandbox::bwrap_argv(
            options, sandbox::binds(spec), sandbox::runner_command(spec.run_dir));
        benchmark::DoNotOptimize(argv.data());
        words = argv.size();
    }
    state.counters["words"] = static_cast<double>(words);
}

BENCHMARK(bwrap_argv);

}  // namespace
}  // namespace mosaic::bench
