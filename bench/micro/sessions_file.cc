// sessions.json with 10, 100 and 1,000 sessions in it.

#include <fcntl.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/instant.h"
#include "base/unique_fd.h"
#include "bench/micro/micro.h"
#include "host/session_store.h"
#include "registry/entries.h"
#include "registry/layout.h"
#include "registry/sessions.h"

namespace mosaic::bench {
namespace {

constexpr const char* kBoot = "0a0b0c0d-0000-0000-0000-000000000000";
constexpr const char* kBusiness = "acme";
constexpr Duration kPatience = seconds(60);

registry::SessionEntry entry_of(int number) {
    std::string digits = std::to_string(number);
    registry::SessionEntry out;
    out.business = kBusiness;
    out.seat = {"coder" + digits, ""};
    out.run = "r" + std::string(12 - digits.size(), '0') + digits;
    out.run_dir = "/home/jordan/.local/state/mosaic/acme/launches/acme/" + out.run;
    out.process = {10'000 + number, "1234567", 20'000 + number, "1234568"};
    out.launched_by = "pm";
    out.harness = "claude";
    out.provider = "anthropic";
    out.model = "a-model";
    out.at = "2026-01-31T12:34:56.789Z";
    return out;
}

registry::SessionsFile file_of(int64_t count) {
    registry::SessionsFile out{kBoot, {}};
    for (int i = 0; i < count; ++i) {
        out.entries.push_back(entry_of(i));
    }
    return out;
}

// The text of the whole file with one entry more, as the host makes it at each change: the others'
// texts are kept.
void sessions_encode(benchmark::State& state) {
    registry::Entries<int> entries;
    for (const registry::SessionEntry& entry : file_of(state.range(0)).entries) {
        entries.adopt(entry.run, registry::dump_entry(entry));
    }
    const registry::SessionEntry added = entry_of(static_cast<int>(state.range(0)));
    size_t bytes = 0;
    for (auto _ : state) {
        entries.adopt(added.run, registry::dump_entry(added));
        const std::string image = entries.image(kBoot);
        benchmark::DoNotOptimize(image.data());
        bytes = image.size();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

BENCHMARK(sessions_encode)->Arg(10)->Arg(100)->Arg(1000);

// What the next host and `mosaic ps` do with it.
void sessions_parse(benchmark::State& state) {
    const std::string text = registry::dump_sessions(file_of(state.range(0)));
    for (auto _ : state) {
        const auto file = registry::parse_sessions(text, "sessions.json", kBusiness);
        if (!file) {
            broken(state, file.error().text);
            break;
        }
        benchmark::DoNotOptimize(file->entries.data());
    }
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

BENCHMARK(sessions_parse)->Arg(10)->Arg(100)->Arg(1000);

// The host's store on a ring of its own, with just the loop that it needs.
class Storing {
  public:
    // Why it can't be; empty when it can.
    std::string start(int64_t count) {
        auto ring = reactor::Ring::create({.entries = 64, .operations_max = 256});
        if (!ring) {
            return ring.error().text;
        }
        loop_.ring = std::move(*ring);
        const std::string path = micro_directory() + "/sessions";
        std::error_code error;
        std::filesystem::create_directories(path, error);
        directory_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!directory_.valid()) {
            return path + ": can't be opened";
        }
        store_ = std::make_unique<host::SessionStore>(loop_, directory_.get(), kBoot);
        store_->adopt(file_of(count).entries);
        return "";
    }

    ~Storing() {
        // The ring gives up what is in flight before its owner goes.
        loop_.ring.reset();
    }

    Storing() = default;
    Storing(const Storing&) = delete;
    Storing& operator=(const Storing&) = delete;

    host::SessionStore& store() { return *store_; }

    // Until the disk has what was changed; false when it doesn't take it.
    bool settle(launch::EventKind expected) {
        const Instant limit = monotonic_now() + kPatience;
        bool came = false;
        while (!came || !store_->quiet()) {
            std::vector<reactor::Op*> done;
            if (!loop_.ring->tick(limit, done) || monotonic_now() >= limit) {
                return false;
            }
            for (reactor::Op* op : done) {
                op->take();
                if (static_cast<host::Owner>(op->owner_kind()) == host::Owner::store) {
                    store_->on_completion();
                } else {
                    store_->on_close_done();
                }
            }
            for (const host::RunEvent& event : std::exchange(loop_.run_events, {})) {
                came = came || event.event.kind == expected;
                if (event.event.kind != expected) {
                    return false;
                }
            }
        }
        return true;
    }

  private:
    UniqueFd directory_;
    host::Loop loop_;
    std::unique_ptr<host::SessionStore> store_;
};

// From a run's entry added to the file replaced and on the disk: a fresh file, its fsync, the
// rename, the directory's fsync. Taking the entry out again isn't measured.
void sessions_replace(benchmark::State& state) {
    Storing storing;
    if (const std::string why = storing.start(state.range(0)); !why.empty()) {
        broken(state, why);
        return;
    }
    const registry::SessionEntry added = entry_of(static_cast<int>(state.range(0)));
    for (auto _ : state) {
        const Instant begin = monotonic_now();
        storing.store().add(added, {0, 1});
        bool fine = storing.settle(launch::EventKind::recorded);
        state.SetIterationTime(static_cast<double>((monotonic_now() - begin).ns) * 1e-9);
        storing.store().remove(added.run, {0, 1});
        fine = storing.settle(launch::EventKind::removed) && fine;
        if (!fine) {
            broken(state, "the disk doesn't take it: " + storing.store().problem());
            break;
        }
    }
}

BENCHMARK(sessions_replace)
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace mosaic::bench
