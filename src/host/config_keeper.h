#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "host/children.h"
#include "host/data_root.h"
#include "host/settings.h"
#include "wire/config_messages.h"
#include "wire/messages.h"

namespace mosaic::host {

// The configuration of a running host: changes that somebody asks for, and reading the files anew.
// One after the other, each whole or not at all: the new settings are made and checked beside the
// living ones, a child lays the trees of modules that are new and writes the changed file (an fsync
// would hold the loop up), and only then the new ones take the place of the old. The host tells the
// broker of what take_outcome() gives.
class ConfigKeeper {
  public:
    // All outlive this. `settings` is replaced by assignment, so that references to it stay good.
    ConfigKeeper(Settings& settings, const DataRoot& root, Children& children);

    // Each gets one outcome, in the order they were asked. `request` is handed back.
    void change(int64_t request, wire::ConfigChangeArgs change);
    // `by` is the human, or what made the host read its files.
    void reload(int64_t request, std::string by);

    struct Outcome {
        int64_t request = 0;
        std::string by;
        bool by_session = false;
        // The settings are new ones; `news` is what the broker shall record.
        bool replaced = false;
        bool business_only = false;  // the machine, the modules and the limits are as they were
        wire::ConfigNews news;
        std::optional<wire::ConfigChangeResult> result;
        std::string code;  // when there is no result: a refusal's or a broker error's
        std::string reason;
    };

    [[nodiscard]] std::optional<Outcome> take_outcome();

    // The host stops: what hasn't begun is answered host-stopping.
    void give_up();

    // No change is under way or to be told of.
    [[nodiscard]] bool quiet() const { return writing_ == nullptr && outcomes_.empty(); }

    // Takes the result when it is one of its own.
    bool settle(const ChildResult& result);

  private:
    struct Task {
        int64_t request = 0;
        std::string by;
        std::optional<wire::ConfigChangeArgs> change;  // nothing: read the files
    };

    // What was found good, while its trees and its file are written.
    struct Writing {
        Task task;
        uint64_t job = 0;
        std::string file;   // empty: trees alone
        std::string after;  // what it becomes
        Settings settings;
        wire::ConfigChangeResult result;
    };
    struct ChildWork;

    void next();
    void begin_change(Task task);
    void begin_reload(Task task);
    void write(std::unique_ptr<Writing> writing, ChildWork work);
    void refuse(const Task& task, std::string_view code, std::string reason);
    void accept(const Task& task, wire::ConfigChangeResult result, bool replaced);

    Settings& settings_;
    const DataRoot& root_;
    Children& children_;
    std::deque<Task> waiting_;
    std::unique_ptr<Writing> writing_;
    std::deque<Outcome> outcomes_;
    bool stopping_ = false;
};

// What became of the file that a child was to write.
enum class Written {
    yes,
    unsure,          // it has the new content, but the child failed at something after that
    changed_before,  // it had another content than the host knew
    no
};

// `holds_it`: the file has the new content now. A child may fail or be killed after its rename.
[[nodiscard]] Written written(const ChildResult& result, bool holds_it);

// What the child does, the exit code of the program. First mosaic-host --lay-stages, if it is
// given: descriptors 6 the directory of the staged trees, 7 those to lay. Then --write-config NAME,
// if it is: 3 the directory, 4 the content that the file has, 5 the one that it gets.
constexpr const char* kLayStages = "--lay-stages";
constexpr const char* kWriteConfig = "--write-config";
[[nodiscard]] int write_config(bool lay_stages, const std::string& name);

}  // namespace mosaic::host
