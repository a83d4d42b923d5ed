#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/admission.h"
#include "host/broker_link.h"
#include "host/children.h"
#include "host/clients.h"
#include "host/config_keeper.h"
#include "host/disk_watch.h"
#include "host/launch_log.h"
#include "host/metrics_port.h"
#include "host/mount_table.h"
#include "host/pager.h"
#include "host/probe.h"
#include "host/recovery.h"
#include "host/run_directories.h"
#include "host/runs.h"
#include "host/session_store.h"
#include "host/settings.h"
#include "host/stage_trees.h"
#include "host/versions.h"
#include "launch/warm_pool.h"

namespace mosaic::host {

struct HostOptions {
    bool launch_pm = false;  // --pm
};

// The service of one business: owns the loop, wires the parts, turns completions into events and
// steps the machines. Single-threaded.
class Host {
  public:
    // Everything is read and checked; the data root is locked. `left` is what sessions.json held.
    Host(Settings settings, DataRoot root, registry::SessionsFile left, HostOptions options);
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    ~Host();

    // Creates the ring and the sockets. The error is for the operator; nothing has been started.
    [[nodiscard]] Result<void> set_up();

    // Serves until it is told to stop. Returns the program's exit code.
    int run();

  private:
    enum class State {
        starting,    // the broker isn't ready for the first time yet
        recovering,  // leftovers are being ended
        serving,
        stopping,
        finishing,  // all ends are recorded; the broker is to exit
        over,
    };

    void begin_start();
    [[nodiscard]] Instant next_deadline();
    void drain();
    void dispatch(reactor::Op& op);
    void dispatch_timers();
    void on_signal();
    void on_accept();
    void accept_more();
    void pause_accepting();

    void take_news();
    void on_ready(const BrokerNews& news);
    void on_human_launch(const BrokerNews& news);
    void take_requests();
    void take_answers();
    void take_children();
    void take_config();
    void on_new_settings(const ConfigKeeper::Outcome& outcome);
    void on_routes(int64_t request);
    void measure();
    void on_measured(const std::string& brokers);
    [[nodiscard]] std::string own_metrics() const;
    void take_ended();
    void take_disk();
    void tidy_stage();
    void take_warm();
    void want_warm();
    void drop_stale_warm();
    [[nodiscard]] bool fill_warm();
    void warm_waited(bool again);
    void on_disk_check();
    void consider(Ask ask, bool again);
    void consider_waiting(bool again);
    void on_request(ClientRequest request);
    void count_bad(Refusal code);
    void on_bad_request_summary();

    void begin_recovery(const wire::BoundResult& bound);
    void forget_orphans(const wire::BoundResult& bound);
    void serve_when_recovered();
    void begin_stop();
    void stop_when_over();
    void cut_stop_short();
    void give_up(const std::string& why, int code);

    [[nodiscard]] AdmissionParts admission();

    Settings settings_;
    DataRoot root_;
    registry::SessionsFile left_;
    HostOptions options_;
    std::string boot_id_;
    State state_ = State::starting;
    int exit_code_ = 0;

    Loop loop_;
    UniqueFd bus_socket_;
    UniqueFd admin_socket_;
    UniqueFd launch_socket_;
    UniqueFd signals_;
    reactor::Op signal_op_;
    reactor::Op accept_op_;
    bool accept_paused_ = false;
    int stops_asked_ = 0;
    bool recovery_begun_ = false;
    LoggedEnds logged_;  // as this host found the launch log

    // Bad requests and unknown capabilities since the last summary.
    uint64_t bad_requests_ = 0;
    uint64_t unknown_capabilities_ = 0;
    bool summary_armed_ = false;

    // Who waits for the metrics until the broker has told its own.
    std::vector<int64_t> measures_asked_;  // requests of the human's
    bool measuring_ = false;
    uint32_t measure_generation_ = 0;
    int64_t started_ms_ = 0;  // since the epoch

    std::unique_ptr<LaunchLog> log_;
    std::unique_ptr<SessionStore> store_;
    std::unique_ptr<BrokerLink> broker_;
    std::unique_ptr<Clients> clients_;
    std::unique_ptr<Children> children_;
    std::unique_ptr<Probe> probe_;
    MountTable mounts_;
    std::unique_ptr<ConfigKeeper> config_;
    std::unique_ptr<Versions> versions_;
    std::unique_ptr<Recovery> recovery_;
    std::unique_ptr<Runs> runs_;
    std::unique_ptr<Pager> pager_;
    std::unique_ptr<RunDirectories> directories_;
    std::unique_ptr<DiskWatch> disk_;
    std::unique_ptr<MetricsPort> metrics_;
    std::unique_ptr<StageTrees> trees_;
    bool tidy_stage_ = false;       // trees may have gone out of use
    std::deque<Ask> waiting_;       // for the end of recovery, or for the probe
    std::set<std::string> warned_;  // environment warnings that were said

    launch::WarmPool warm_;
    launch::WarmTurn warm_turn_;
    bool warm_waits_ = false;  // for the probe
    bool warm_again_ = false;  // ... and has waited
    bool warm_due_ = false;    // a seat is made when what this turn answered is on its way
    std::optional<Instant> warm_timer_;
};

}  // namespace mosaic::host
