#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/broker_link.h"
#include "host/launch_log.h"
#include "host/loop.h"
#include "host/session_store.h"
#include "launch/leftovers.h"
#include "registry/sessions.h"

namespace mosaic::host {

struct RecoveryParts {
    Loop& loop;
    SessionStore& store;
    BrokerLink& broker;
    LaunchLog& log;
    std::string runs_path;                // <data root>/launches/<business>
    std::string bwrap;                    // configured path
    std::string boot_id;                  // of this boot
    std::set<std::string> logged_ends{};  // runs whose `end` line the launch log has
};

// Ends what a host that died hard left behind, all of it at once: the entries of sessions.json, the
// runs that the broker holds as bound, and processes that nobody names. A process is signalled only
// when it is proven to be one of a session's: an entry's by boot id, start time and run directory,
// any other by its program, owner and run directory; and only through a pidfd opened before the
// proof. Who the leftovers are, and what they hold, is launch/leftovers.h's.
class Recovery {
  public:
    explicit Recovery(RecoveryParts parts);

    // An error, and nothing done, when not all processes can be pinned: one that can't be must
    // never count as dead.
    [[nodiscard]] Result<void> begin(const registry::SessionsFile& left,
                                     const std::vector<wire::BoundRun>& bound);

    void step(const LeftoverNews& news);
    void on_process_gone(uint32_t process);
    void on_deadline(uint32_t leftover, uint32_t generation);
    void on_ended(uint32_t leftover, const wire::EndLaunchResult& end);

    [[nodiscard]] const launch::Leftovers& leftovers() const { return leftovers_; }

    struct Settled {
        std::string run;
        bool was_run = true;  // false: nobody ever knew it as a run
    };

    // What was settled.
    [[nodiscard]] std::optional<Settled> take_settled();

  private:
    struct Process {
        pid_t pid = 0;
        bool inner = false;  // pid 1 of its namespace: goes first
        bool gone = false;
        uint32_t leftover = 0;
        UniqueFd pidfd;
        reactor::Op op;
    };

    // Of a leftover, what its machine doesn't see.
    struct Rest {
        wire::EndLaunchResult end;
        std::vector<uint32_t> processes;
    };

    [[nodiscard]] Rest& rest_of(uint32_t leftover);
    [[nodiscard]] bool all_gone(uint32_t leftover);
    [[nodiscard]] Result<void> note_entry_processes(const registry::SessionEntry& entry);
    // Every process of a session that isn't known, or only those of `run`.
    [[nodiscard]] Result<void> scan(const std::string& run = {});
    [[nodiscard]] bool is_known(pid_t pid) const;
    [[nodiscard]] Result<void> add_process(uint32_t leftover, pid_t pid, UniqueFd pidfd);
    [[nodiscard]] std::string run_of(const launch::SeenProcess& seen) const;
    void carry_out(uint32_t index, const launch::LeftoverStep& step);
    void carry_out(uint32_t index, launch::LeftoverEffect effect);
    void kill(uint32_t leftover);
    void log_end(uint32_t index);

    RecoveryParts parts_;
    std::string bwrap_real_;
    launch::Leftovers leftovers_;
    std::vector<Rest> rests_;  // as far as they were needed
    std::deque<Settled> settled_;
    std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace mosaic::host
