#include "host/config_keeper.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "config/change.h"
#include "config/fields.h"
#include "host/routes.h"
#include "host/stage.h"
#include "process/files.h"
#include "process/write_all.h"
#include "wire/codes.h"
#include "wire/limits.h"

namespace mosaic::host {
namespace {

constexpr Duration kWriteTakes = seconds(10);
constexpr Duration kLayTakes = seconds(60);
constexpr int kChanged = exit_code::kRefused;  // the child's exit code: another content
// The child's descriptors.
constexpr int kDirectoryFd = 3;
constexpr int kBeforeFd = 4;
constexpr int kAfterFd = 5;
constexpr int kStageFd = 6;
constexpr int kTreesFd = 7;

struct Problem {
    std::string code;
    std::string reason;
};

Problem problem_of(const Error& error) {
    const BusError code =
        error.code == Code::missing ? BusError::not_found : BusError::config_invalid;
    return {std::string(to_string(code)), error.text};
}

// A change as text: of which file, and what it becomes.
struct Draft {
    std::string file;
    bool system = false;
    std::string before;
    std::string after;
    std::vector<StagedTree> trees;  // that the new settings need and aren't laid yet
};

Result<std::string> apply(const Settings& settings, const wire::ConfigChangeArgs& change) {
    const std::string& file = settings.business.file;
    const std::string& text = settings.business_text;
    switch (change.verb) {
        case wire::ConfigVerb::routes_set: {
            MOSAIC_TRY_ASSIGN(const auto args, wire::RoutesSetArgs::from(change.args));
            return config::change_routes(text, file, args);
        }
        case wire::ConfigVerb::limits_set: {
            MOSAIC_TRY_ASSIGN(const auto args, wire::LimitsSetArgs::from(change.args));
            return config::change_limits(text, file, args);
        }
        case wire::ConfigVerb::instances_set: {
            MOSAIC_TRY_ASSIGN(const auto args, wire::InstancesSetArgs::from(change.args));
            return config::change_instances(text, file, args);
        }
        case wire::ConfigVerb::plugins_set:
            break;
    }
    MOSAIC_TRY_ASSIGN(const auto args, wire::PluginsSetArgs::from(change.args));
    return config::change_plugins(
        settings.system_text, system_file_of(settings), settings.env, args);
}

Result<Draft> draft_of(const Settings& settings, const wire::ConfigChangeArgs& change) {
    Draft out;
    out.system = change.verb == wire::ConfigVerb::plugins_set;
    out.file = out.system ? system_file_of(settings) : settings.business.file;
    out.before = out.system ? settings.system_text : settings.business_text;
    MOSAIC_TRY_ASSIGN(out.after, apply(settings, change));
    return out;
}

// Whether both texts mean the same document.
bool same_document(const std::string& a, const std::string& b) {
    const json::ParseOptions options{.depth_max = limits::kFileDepthMax};
    const auto one = json::parse(a, options);
    const auto other = json::parse(b, options);
    return one && other && *one == *other;
}

// The settings as the draft makes them; what a launch needs of them is there, but for the draft's
// trees.
Result<Settings> settings_of(const Settings& now, Draft& draft, const DataRoot& root) {
    MOSAIC_TRY_ASSIGN(Settings out, copy_settings(now));
    if (!draft.system) {
        MOSAIC_TRY_ASSIGN(out.business, config::parse_business(draft.after, draft.file));
        out.business_text = draft.after;
        MOSAIC_TRY(check_broker_config(out));
        return out;
    }
    MOSAIC_TRY_ASSIGN(out.system, config::parse_system(draft.after, draft.file, now.env));
    out.system_text = draft.after;
    load_modules(out);
    MOSAIC_TRY_ASSIGN(draft.trees, plan_stages(out, root));
    resolve_places(out, root);
    return out;
}

// A module that is switched on by this change and can't be used.
std::optional<Problem> bad_module(const Settings& now, const Settings& next) {
    for (const auto& [name, problem] : next.modules.problems) {
        const auto& on = now.system.plugins_harness;
        if (std::find(on.begin(), on.end(), name) == on.end()) {
            return Problem{std::string(to_string(Refusal::harness_refused)), problem};
        }
    }
    return std::nullopt;
}

// The instance whose route a change sets a part of; empty: none.
std::string touched_route(const wire::ConfigChangeArgs& change) {
    if (change.verb == wire::ConfigVerb::routes_set) {
        const auto args = wire::RoutesSetArgs::from(change.args);
        return args && !args->route.empty() ? args->instance : std::string();
    }
    if (change.verb == wire::ConfigVerb::limits_set) {
        const auto args = wire::LimitsSetArgs::from(change.args);
        return args && (args->model || args->thinking) ? args->instance : std::string();
    }
    return {};
}

Result<UniqueFd> memory_file(const std::string& text) {
    UniqueFd out(::memfd_create("config", MFD_CLOEXEC));
    if (!out.valid()) {
        return fail_sys(errno, "memory for the changed file");
    }
    MOSAIC_TRY(process::write_all(out.get(), text, "memory for the changed file"));
    return out;
}

// Where the file really lies: a link to it stays a link.
Result<std::string> real_file(const std::string& path) {
    auto real = process::real_path(path);
    if (!real && real.error().code == Code::missing) {
        return path;
    }
    return real;
}

Result<std::string> read_memory(int fd, uint64_t bytes_max) {
    return process::read_file("/proc/self/fd/" + std::to_string(fd), bytes_max);
}

Result<void> lay_given_trees() {
    MOSAIC_TRY_ASSIGN(const std::string bytes, read_memory(kTreesFd, UINT64_MAX));
    MOSAIC_TRY_ASSIGN(const std::vector<StagedTree> trees, decode_trees(bytes));
    for (const StagedTree& tree : trees) {
        MOSAIC_TRY(lay_tree(kStageFd, tree));
    }
    return {};
}

// Whether the file has this content by now.
bool holds(const std::string& file, const std::string& content) {
    if (file.empty()) {
        return false;
    }
    const auto now = process::read_file(file, config::kFileBytesMax);
    return now && *now == content;
}

// To the host's end of the pipe; what doesn't get there is only a reason less.
int tell(const std::string& text) {
    ignore(::write(STDERR_FILENO, text.data(), text.size()), "see above");
    return exit_code::kFailed;
}

wire::ConfigNews news_of(const std::string& by, const std::optional<wire::ConfigChangeArgs>& what) {
    if (!what) {
        return {"config.reloaded", json::Object{{"by", by}}};
    }
    json::Value fields(json::Object{{"by", by}});
    if (json::dump(what->args).size() <= limits::kConfigNewsBytesMax) {
        for (const json::Member& member : *what->args.object()) {
            fields.set(member.first, member.second);
        }
    }
    switch (what->verb) {
        case wire::ConfigVerb::routes_set:
            return {"routes.changed", std::move(fields)};
        case wire::ConfigVerb::limits_set:
            return {"limits.changed", std::move(fields)};
        case wire::ConfigVerb::instances_set:
            return {"instances.changed", std::move(fields)};
        case wire::ConfigVerb::plugins_set:
            break;
    }
    return {"plugins.changed", std::move(fields)};
}

}  // namespace

struct ConfigKeeper::ChildWork {
    std::string before;
    std::vector<StagedTree> trees;
};

ConfigKeeper::ConfigKeeper(Settings& settings, const DataRoot& root, Children& children)
    : settings_(settings), root_(root), children_(children) {}

void ConfigKeeper::change(int64_t request, wire::ConfigChangeArgs change) {
    std::string by = change.by;
    waiting_.push_back({request, std::move(by), std::move(change)});
    next();
}

void ConfigKeeper::reload(int64_t request, std::string by) {
    waiting_.push_back({request, std::move(by), std::nullopt});
    next();
}

void ConfigKeeper::next() {
    while (writing_ == nullptr && !waiting_.empty()) {
        Task task = std::move(waiting_.front());
        waiting_.pop_front();
        if (stopping_) {
            refuse(task, to_string(Refusal::host_stopping), "the host is stopping");
        } else if (task.change) {
            begin_change(std::move(task));
        } else {
            begin_reload(std::move(task));
        }
    }
}

void ConfigKeeper::begin_change(Task task) {
    const auto refuse_with = [&](const Problem& problem) {
        refuse(task, problem.code, problem.reason);
    };
    auto draft = draft_of(settings_, *task.change);
    if (!draft) {
        return refuse_with(problem_of(draft.error()));
    }
    if (same_document(draft->before, draft->after)) {
        return accept(task, {}, false);
    }
    auto next = settings_of(settings_, *draft, root_);
    if (!next) {
        const BusError code = next.error().code == Code::invalid ? BusError::config_invalid
                                                                 : BusError::storage_unavailable;
        return refuse(task, to_string(code), next.error().text);
    }
    if (const auto bad = bad_module(settings_, *next)) {
        return refuse_with(*bad);
    }
    if (const auto bad = first_bad_change(settings_, *next, touched_route(*task.change))) {
        return refuse(task, to_string(bad->code), bad->reason);
    }
    auto writing = std::make_unique<Writing>();
    writing->result.changed = true;
    writing->result.warnings = newly_refused(settings_, *next);
    writing->settings = std::move(*next);
    writing->file = draft->file;
    writing->after = std::move(draft->after);
    writing->task = std::move(task);
    write(std::move(writing),
          {.before = std::move(draft->before), .trees = std::move(draft->trees)});
}

// Starts the child; settle() goes on when it has ended.
void ConfigKeeper::write(std::unique_ptr<Writing> writing, ChildWork work) {
    process::SpawnSpec spec;
    std::vector<UniqueFd> keep;
    const auto prepared = [&]() -> Result<void> {
        const auto give = [&](int number, UniqueFd fd) {
            spec.descriptors.emplace_back(fd.get(), number);
            keep.push_back(std::move(fd));
        };
        spec.path = "/proc/self/exe";
        spec.argv = {"mosaic-host"};
        spec.env = {"LANG=C.UTF-8"};
        if (!work.trees.empty()) {
            MOSAIC_TRY_ASSIGN(UniqueFd trees, memory_file(encode_trees(work.trees)));
            spec.argv.emplace_back(kLayStages);
            spec.descriptors.emplace_back(root_.stage.get(), kStageFd);
            give(kTreesFd, std::move(trees));
        }
        if (writing->file.empty()) {
            return {};
        }
        MOSAIC_TRY_ASSIGN(const std::string file, real_file(writing->file));
        MOSAIC_TRY_ASSIGN(UniqueFd before, memory_file(work.before));
        MOSAIC_TRY_ASSIGN(UniqueFd after, memory_file(writing->after));
        const size_t slash = file.rfind('/');
        MOSAIC_TRY_ASSIGN(UniqueFd directory,
                          process::open_directory(file.substr(0, std::max<size_t>(slash, 1))));
        spec.argv.emplace_back(kWriteConfig);
        spec.argv.push_back(file.substr(slash + 1));
        give(kDirectoryFd, std::move(directory));
        give(kBeforeFd, std::move(before));
        give(kAfterFd, std::move(after));
        return {};
    }();
    if (!prepared) {
        return refuse(
            writing->task, to_string(BusError::storage_unavailable), prepared.error().text);
    }
    const Duration takes = work.trees.empty() ? kWriteTakes : kLayTakes;
    writing->job = children_.run(std::move(spec), std::move(keep), takes);
    writing_ = std::move(writing);
}

bool ConfigKeeper::settle(const ChildResult& result) {
    if (writing_ == nullptr || result.job != writing_->job) {
        return false;
    }
    const auto done = std::exchange(writing_, nullptr);
    const std::string why = !result.started         ? errno_text(result.sys)
                            : result.timed_out      ? "it took too long"
                            : result.output.empty() ? "its child ended badly"
                                                    : result.output;
    switch (written(result, holds(done->file, done->after))) {
        case Written::unsure:
            done->result.warnings.push_back(done->file +
                                            " is changed, but a loss of power may still take it "
                                            "back: " +
                                            why);
            [[fallthrough]];
        case Written::yes:
            settings_ = std::move(done->settings);
            accept(done->task, std::move(done->result), true);
            break;
        case Written::changed_before:
            refuse(done->task,
                   to_string(BusError::config_changed),
                   done->file +
                       " is another one on disk than the host read; read it anew (mosaic reload) "
                       "and ask again");
            break;
        case Written::no:
            refuse(done->task,
                   to_string(BusError::storage_unavailable),
                   (done->file.empty() ? "the trees of the modules" : done->file) +
                       " can't be written: " + why);
            break;
    }
    next();
    return true;
}

void ConfigKeeper::begin_reload(Task task) {
    auto fresh = read_settings(settings_.source, &settings_);
    if (!fresh) {
        return refuse(task, to_string(BusError::config_invalid), fresh.error().text);
    }
    if (fresh->business.id != settings_.business.id) {
        return refuse(task,
                      to_string(BusError::config_invalid),
                      fresh->business.file + ": /id: expected \"" + settings_.business.id +
                          "\", whose host this is, found \"" + fresh->business.id + "\"");
    }
    auto trees = plan_stages(*fresh, root_);
    if (!trees) {
        return refuse(task, to_string(BusError::storage_unavailable), trees.error().text);
    }
    resolve_places(*fresh, root_);
    wire::ConfigChangeResult result;
    result.changed = fresh->system_text != settings_.system_text ||
                     fresh->business_text != settings_.business_text ||
                     fresh->modules != settings_.modules;
    for (const auto& [name, problem] : fresh->modules.problems) {
        result.warnings.push_back("harness module " + name + " can't be used: " + problem);
    }
    for (std::string& refused : newly_refused(settings_, *fresh)) {
        result.warnings.push_back(std::move(refused));
    }
    const auto data_root = [](const Settings& settings) {
        return config::data_root_of(settings.system, settings.source.data, settings.business.id);
    };
    if (data_root(*fresh) != data_root(settings_)) {
        result.warnings.emplace_back("dataRoot is another; it counts from the next start on");
    }
    if (trees->empty()) {
        settings_ = std::move(*fresh);
        return accept(task, std::move(result), true);
    }
    auto writing = std::make_unique<Writing>();
    writing->task = std::move(task);
    writing->settings = std::move(*fresh);
    writing->result = std::move(result);
    write(std::move(writing), {.before = "", .trees = std::move(*trees)});
}

void ConfigKeeper::refuse(const Task& task, std::string_view code, std::string reason) {
    Outcome out;
    out.request = task.request;
    out.by = task.by;
    out.by_session = task.change && task.change->by_session;
    out.code = code;
    out.reason = std::move(reason);
    outcomes_.push_back(std::move(out));
}

void ConfigKeeper::accept(const Task& task, wire::ConfigChangeResult result, bool replaced) {
    Outcome out;
    out.request = task.request;
    out.by = task.by;
    out.by_session = task.change && task.change->by_session;
    out.replaced = replaced;
    out.business_only = task.change && task.change->verb != wire::ConfigVerb::plugins_set;
    out.news = news_of(task.by, task.change);
    out.result = std::move(result);
    outcomes_.push_back(std::move(out));
}

std::optional<ConfigKeeper::Outcome> ConfigKeeper::take_outcome() {
    if (outcomes_.empty()) {
        return std::nullopt;
    }
    Outcome out = std::move(outcomes_.front());
    outcomes_.pop_front();
    return out;
}

void ConfigKeeper::give_up() {
    stopping_ = true;
    next();
}

Written written(const ChildResult& result, bool holds_it) {
    const bool exited = result.started && !result.timed_out && result.exit.signal == 0;
    if (exited && result.exit.exit_code == exit_code::kFine) {
        return Written::yes;
    }
    if (exited && result.exit.exit_code == kChanged) {
        return Written::changed_before;
    }
    return holds_it ? Written::unsure : Written::no;
}

int write_config(bool lay_stages, const std::string& name) {
    if (lay_stages) {
        const auto laid = lay_given_trees();
        if (!laid) {
            return tell(laid.error().text);
        }
    }
    if (name.empty()) {
        return exit_code::kFine;
    }
    const auto before = read_memory(kBeforeFd, config::kFileBytesMax);
    const auto after = read_memory(kAfterFd, config::kFileBytesMax);
    if (!before || !after) {
        return tell((before ? after : before).error().text);
    }
    const auto written = process::rewrite_file(kDirectoryFd, name, *before, *after);
    if (!written) {
        return tell(written.error().text);
    }
    return *written ? exit_code::kFine : kChanged;
}

}  // namespace mosaic::host
