#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/sessions.h"

namespace mosaic::registry {

// The model that store.h's machine makes durable: the entries by run, the number of the newest
// change, and who waits for which change. Pure; `Waiter` is whatever its owner needs to tell it.
template <class Waiter>
class Entries {
  public:
    struct Change {
        uint64_t version = 0;
        bool adding = false;
        Waiter waiter;
    };

    // An entry that is on disk already, in a file of the boot `boot_id`; empty: of this boot.
    void adopt(const std::string& run, std::string text, std::string_view boot_id = {}) {
        entries_[run] = std::move(text);
        if (!boot_id.empty()) {
            adopted_.insert(run);
            adopted_boot_ = boot_id;
        }
    }

    // Both return the change's version. `text` is dump_entry()'s. The entry of an addition that
    // fails stays in until it is removed, because its process may live that long.
    [[nodiscard]] uint64_t add(const std::string& run, std::string text, Waiter waiter) {
        entries_[run] = std::move(text);
        return note({0, true, std::move(waiter)});
    }

    [[nodiscard]] uint64_t remove(const std::string& run, Waiter waiter) {
        entries_.erase(run);
        adopted_.erase(run);
        return note({0, false, std::move(waiter)});
    }

    // The file as of the newest change. It keeps the boot that it was adopted with until the last
    // entry adopted with it is gone: in another boot their pids are anybody's.
    [[nodiscard]] std::string image(std::string_view boot_id) const {
        std::vector<std::string_view> texts;
        texts.reserve(entries_.size());
        for (const auto& [run, text] : entries_) {
            texts.emplace_back(text);
        }
        return assemble_sessions(adopted_.empty() ? boot_id : std::string_view(adopted_boot_),
                                 texts);
    }

    // The changes that became durable with `version`, in their order.
    [[nodiscard]] std::vector<Change> take_durable(uint64_t version) {
        const auto end = std::find_if(
            waiting_.begin(), waiting_.end(), [&](const Change& c) { return c.version > version; });
        std::vector<Change> done(std::make_move_iterator(waiting_.begin()),
                                 std::make_move_iterator(end));
        waiting_.erase(waiting_.begin(), end);
        return done;
    }

    // The additions up to a `version` that couldn't be written. A launch whose entry can't be made
    // durable fails at once. A removal goes on waiting for the disk: its process is gone, and the
    // entry only costs the next host a look.
    [[nodiscard]] std::vector<Change> take_failed(uint64_t version) {
        std::vector<Change> failed;
        for (auto c = waiting_.begin(); c != waiting_.end();) {
            if (c->version <= version && c->adding) {
                failed.push_back(std::move(*c));
                c = waiting_.erase(c);
            } else {
                ++c;
            }
        }
        return failed;
    }

    [[nodiscard]] bool waiting() const { return !waiting_.empty(); }

    [[nodiscard]] size_t size() const { return entries_.size(); }

  private:
    uint64_t note(Change change) {
        change.version = ++version_;
        waiting_.push_back(std::move(change));
        return version_;
    }

    std::map<std::string, std::string> entries_;
    std::set<std::string> adopted_;  // runs whose entries are of the boot `adopted_boot_`
    std::string adopted_boot_;
    uint64_t version_ = 0;
    std::vector<Change> waiting_;  // by ascending version
};

}  // namespace mosaic::registry
