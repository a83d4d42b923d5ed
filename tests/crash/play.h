#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crash/ledger.h"
#include "e2e/harness.h"

// The scene that is played against a host which may be killed at any point of it, or whose broker
// may. Whatever goes on when the host is dead ends at once; what meets a dead broker asks the next.

namespace mosaic::crash {

// The roles of the scene: the pm may do everything, so that every verb is heard.
void set_up_roles(e2e::World& world);

// How many warm seats the reviewer has, by the configuration files.
void set_warm_seats(e2e::World& world, int64_t number);
[[nodiscard]] bool has_warm_seat(const e2e::World& world);

class Play {
  public:
    Play(e2e::World& world, Ledger& ledger) : world_(world), ledger_(ledger) {}

    // From a host that is ready to one that has ended: launches of four roles, messages, tasks and
    // a decision, launches that are refused at several stages, a stop, a kill, a session that dies,
    // the host's own stop. One launch takes a seat that was warm.
    void all();

    // The host's process is dead.
    [[nodiscard]] bool gone() const;
    // Asks until somebody answers; nothing once the host is gone.
    std::optional<json::Value> request(std::string_view verb, const json::Value& args);
    // Launches these seats beside each other, however often it takes.
    void launch(const std::vector<std::string>& seats);
    // A message that tells the ledger when it was carried out.
    void note();
    // SIGTERM, and waits for the end.
    void stop_host();

  private:
    // Asks once; nothing when the connection broke.
    std::optional<json::Value> request_once(std::string_view verb, const json::Value& args);
    // Whether it became true before the host was gone.
    template <class Done>
    bool wait_for(const char* what, Done done);
    [[nodiscard]] bool is_live(std::string_view seat);
    void run_script(std::string_view seat, const std::string& script);
    void look_around();
    void begins();
    void begins_again();
    void converse();
    void launches_by_a_session();
    void launches_that_fail();
    void ends();

    e2e::World& world_;
    Ledger& ledger_;
};

}  // namespace mosaic::crash
