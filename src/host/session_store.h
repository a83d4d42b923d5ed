#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/loop.h"
#include "registry/entries.h"
#include "registry/sessions.h"
#include "registry/store.h"

namespace mosaic::host {

// bus-host/sessions.json as the running host keeps it: the entries by run, and the registry's store
// machine carried out on the ring. A change is durable when its waiter's event comes.
class SessionStore {
  public:
    // `directory` is bus-host and stays open.
    SessionStore(Loop& loop, int directory, std::string boot_id);

    // The entries of a dead host, as they are on disk in a file of the boot `boot_id`; empty: of
    // this boot.
    void adopt(const std::vector<registry::SessionEntry>& entries, const std::string& boot_id = {});

    // Adds the run's entry. `waiter` gets recorded, or record_failed; the entry stays in until it
    // is removed all the same, because its process may live that long.
    void add(const registry::SessionEntry& entry, SlotRef waiter);

    // Replaces the entry of a run that has one. Nobody waits: what is on the disk meanwhile is good
    // enough for the next host.
    void amend(const registry::SessionEntry& entry);

    // Removes it. `waiter` gets removed once that is durable, however long the disk refuses.
    void remove(const std::string& run, SlotRef waiter);
    void remove_leftover(const std::string& run, uint32_t leftover);

    void on_completion();
    void on_close_done();
    void on_retry();

    [[nodiscard]] bool quiet() const;

    [[nodiscard]] size_t size() const { return entries_.size(); }

    // Why the last replacement that failed did; for whoever got record_failed.
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    struct Waiter {
        SlotRef slot;
        std::optional<uint32_t> leftover;
    };

    void changed(uint64_t version);
    void feed(const registry::StoreEvent& event);
    void carry_out(const registry::StoreEffect& effect);
    void open_temporary();
    void report_durable(uint64_t version);
    void report_failed(uint64_t version, int sys);

    Loop& loop_;
    int directory_;
    std::string boot_id_;
    registry::Entries<Waiter> entries_;
    registry::StoreState state_;
    reactor::Op op_;
    reactor::Op close_op_;
    registry::StoreEventKind awaited_ = registry::StoreEventKind::opened;
    std::string image_;
    int temporary_ = -1;
    std::string problem_;
    bool complained_ = false;
    Instant begun_;  // the replacement that is under way
};

}  // namespace mosaic::host
