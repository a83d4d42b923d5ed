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
// proof.
class Recovery {
  public:
    explicit Recovery(RecoveryParts parts);

    void begin(const registry::SessionsFile& left, const std::vector<wire::BoundRun>& bound);

    void step(const LeftoverNews& news);
    void on_process_gone(uint32_t process);
    void on_deadline(uint32_t leftover, uint32_t generation);
    void on_ended(uint32_t leftover, const wire::EndLaunchResult& end);

    // Everything is settled, or reported as stuck: launches may begin.
    [[nodiscard]] bool may_launch() const;
    [[nodiscard]] bool over() const;
    [[nodiscard]] bool is_taken(const Seat& seat) const;
    // It is about this run, and hasn't settled it.
    [[nodiscard]] bool holds(const std::string& run) const;

    struct Settled {
        std::string run;
        bool was_run = true;  // false: a warm seat that nobody had taken
    };

    // What was settled.
    [[nodiscard]] std::optional<Settled> take_settled();

    [[nodiscard]] size_t size() const { return leftovers_.size(); }

  private:
    struct Process {
        pid_t pid = 0;
        bool inner = false;  // pid 1 of its namespace: goes first
        bool gone = false;
        uint32_t leftover = 0;
        UniqueFd pidfd;
        reactor::Op op;
    };

    struct Leftover {
        launch::LeftoverState state;
        registry::SessionEntry entry;
        wire::EndLaunchResult end;
        std::vector<uint32_t> processes;
    };

    Leftover& leftover_of(const std::string& run);
    void note_entry_processes(uint32_t index, const std::string& left_boot);
    void scan();
    void add_process(uint32_t leftover, pid_t pid, UniqueFd pidfd);
    [[nodiscard]] std::string run_of(pid_t pid) const;
    void carry_out(uint32_t index, const launch::LeftoverStep& step);
    void carry_out(uint32_t index, launch::LeftoverEffect effect);
    void kill(const Leftover& leftover);
    [[nodiscard]] bool all_gone(const Leftover& leftover) const;

    RecoveryParts parts_;
    std::string bwrap_real_;
    std::vector<Leftover> leftovers_;
    std::deque<Settled> settled_;
    std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace mosaic::host
