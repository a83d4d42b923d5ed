#include "host/disk_watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/ids.h"
#include "host/log.h"
#include "process/files.h"
#include "process/measure_tree.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::host {
namespace {

constexpr Duration kLookTakes = seconds(600);
// The look can wait for whoever works.
constexpr int kNiceness = 10;

// Takes the text up to `end` off `rest`; nothing when there is none.
std::optional<std::string_view> take_until(std::string_view& rest, char end) {
    const size_t at = rest.find(end);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view out = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    return out;
}

bool parse_number(std::string_view text, uint64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
}

Result<process::TreeUse> measure_run(int runs, const std::string& run, uint64_t enough) {
    MOSAIC_TRY_ASSIGN(const UniqueFd directory, process::reopen_directory(runs, run));
    return process::measure_tree(directory.get(), std::string(registry::kRw), enough);
}

}  // namespace

DiskWatch::DiskWatch(Loop& loop, Children& children, const config::Limits& limits, int runs)
    : loop_(loop), children_(children), limits_(limits), runs_(runs) {}

void DiskWatch::wake() {
    if (!armed_ && !stopped_) {
        arm();
    }
}

void DiskWatch::arm() {
    armed_ = true;
    loop_.set_timer(TimerKind::disk_check, 0, 0, seconds(limits_.disk_check_seconds));
}

void DiskWatch::on_timer(const std::vector<std::string>& live) {
    if (live.empty() || stopped_) {
        armed_ = false;
        return;
    }
    process::SpawnSpec spec;
    spec.path = "/proc/self/exe";
    spec.argv = {"mosaic-host", kEnough, std::to_string(limits_.run_disk_bytes)};
    for (const std::string& run : in_turn(live, looks_++)) {
        spec.argv.emplace_back(kMeasureRun);
        spec.argv.push_back(run);
    }
    spec.env = {"LANG=C.UTF-8"};
    spec.descriptors = {{runs_, 3}};
    job_ = children_.run(std::move(spec), {}, kLookTakes);
}

bool DiskWatch::settle(const ChildResult& result) {
    if (job_ == 0 || result.job != job_) {
        return false;
    }
    job_ = 0;
    if (stopped_) {
        return true;
    }
    if (!result.started || result.exit.signal != 0 || result.exit.exit_code != 0) {
        log_line("the disk use of the sessions could not be measured whole: " + result.output);
    }
    for (const DiskLine& line : parse_disk_lines(result.output)) {
        if (line.bytes >= static_cast<uint64_t>(limits_.run_disk_bytes)) {
            over_.push_back({line.run, line.bytes});
        } else {
            log_line("run " + line.run + ": " + std::to_string(line.unread) +
                     " directories of its rw/ can't be looked into; what they hold isn't counted");
        }
    }
    arm();
    return true;
}

std::optional<OverDisk> DiskWatch::take_over() {
    if (over_.empty()) {
        return std::nullopt;
    }
    OverDisk out = std::move(over_.front());
    over_.pop_front();
    return out;
}

void DiskWatch::stop() {
    stopped_ = true;
    if (job_ != 0) {
        children_.end(job_);
    }
}

std::vector<std::string> in_turn(std::vector<std::string> live, uint64_t look) {
    if (!live.empty()) {
        const auto first = static_cast<std::ptrdiff_t>(look % live.size());
        std::rotate(live.begin(), live.begin() + first, live.end());
    }
    return live;
}

std::vector<DiskLine> parse_disk_lines(const std::string& output) {
    std::vector<DiskLine> out;
    std::string_view rest = output;
    while (const auto text = take_until(rest, '\n')) {
        std::string_view fields = *text;
        const auto run = take_until(fields, ' ');
        const auto bytes = take_until(fields, ' ');
        DiskLine line;
        if (run && bytes && is_run_id(*run) && parse_number(*bytes, line.bytes) &&
            parse_number(fields, line.unread)) {
            line.run = std::string(*run);
            out.push_back(std::move(line));
        }
    }
    return out;
}

int measure_in_runs(int runs, const std::vector<std::string>& names, uint64_t enough) {
    ::setpriority(PRIO_PROCESS, 0, kNiceness);
    ignore(process::see_into_own_directories(), "what can't be read is told of each run");
    int code = exit_code::kFine;
    for (const std::string& run : names) {
        if (!is_run_id(run)) {
            return exit_code::kInvalidInput;
        }
        const auto use = measure_run(runs, run, enough);
        if (!use) {
            if (use.error().code != Code::missing) {
                log_line("run " + run + ": " + use.error().text);
                code = exit_code::kFailed;
            }
            continue;
        }
        if (use->bytes < enough && use->unread == 0) {
            continue;
        }
        const std::string line =
            run + " " + std::to_string(use->bytes) + " " + std::to_string(use->unread) + "\n";
        if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) {
            return exit_code::kFailed;
        }
    }
    return code;
}

}  // namespace mosaic::host
