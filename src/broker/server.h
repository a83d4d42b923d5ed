#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/instant.h"
#include "base/unique_fd.h"
#include "broker/connection.h"
#include "broker/core.h"
#include "broker/turn.h"
#include "broker/watches.h"
#include "process/peer.h"

// The broker's shell: one loop over the control pair, the two listening sockets and their
// connections. It decides who may connect (before a byte is read), how much of whom is taken in a
// turn, and carries out what the turn came to. Blocking happens in wait() and in the commit.

namespace mosaic::broker {

// All three are inherited from the host, which keeps the listening sockets open as well.
struct Sockets {
    UniqueFd control;  // one end of a socketpair
    UniqueFd bus;      // bound and listening
    UniqueFd admin;    // bound and listening
    UniqueFd signals;  // a signalfd with SIGTERM
};

class Server {
  public:
    Server(Sockets sockets, Store& store);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    // Until the host closes its end or SIGTERM arrives: then the value is the exit code. An Error
    // is a loop that can't go on.
    [[nodiscard]] Result<int> run();

  private:
    struct Forward {
        uint64_t connection = 0;
        int64_t request = 0;    // its id there
        int64_t allowance = 0;  // Outcome's
    };

    // A listening socket that isn't accepted from, for want of descriptors.
    struct Pause {
        bool on = false;
        bool told = false;  // since it last had nobody waiting
    };

    [[nodiscard]] Result<void> start();
    [[nodiscard]] Result<void> tick();
    [[nodiscard]] int timeout_ms() const;
    [[nodiscard]] Result<void> listen_now();
    [[nodiscard]] Result<void> pause_accepting(bool admin, int sys);
    [[nodiscard]] Result<void> resume_accepting();

    // server_accept.cc
    void accept_all(bool admin);
    // False when there is nothing to accept now.
    [[nodiscard]] bool accept_one(bool admin);
    void admit_runner(UniqueFd fd);
    void admit_human(UniqueFd fd);
    [[nodiscard]] Connection* add_connection(UniqueFd fd, Caller caller, Seat mailbox);

    void on_event(Connection& connection, uint32_t events);
    void read_some(Connection& connection);
    [[nodiscard]] std::vector<Item> collect();
    void take_lines(Connection& connection, size_t lines_max, std::vector<Item>& items);
    void take_line(Connection& connection, std::string line, std::vector<Item>& items);
    void relay(wire::Reply reply);
    void carry_out(const std::vector<Done>& done);
    void give_back(int64_t allowance);
    void forward(Connection& from, int64_t request, const Outcome& outcome);
    void ask_host(const std::string& verb, json::Value args);
    void report_store();
    void report_watches();
    void queue(Connection& connection);
    void push(Connection& connection, const std::string& bytes);
    static void flush(Connection& connection);
    // A configuration with another human ends the connections of the one before.
    void follow_human();
    // Flushes, closes or re-arms every connection that this turn touched.
    void finish_turn();
    [[nodiscard]] bool is_over(const Connection& connection) const;
    void close_connection(uint64_t id);
    void say_goodbye();

    Sockets sockets_;
    Store& store_;
    Core core_;
    Turns turns_;
    Watches watches_;
    Connection control_;
    std::map<uint64_t, std::unique_ptr<Connection>> connections_;
    std::map<std::string, uint64_t> by_run_;
    std::deque<uint64_t> ready_;  // connections with lines, whose turn comes in this order
    std::set<uint64_t> touched_;  // to look at when the turn is over
    std::map<int64_t, Forward> forwards_;
    uint64_t next_connection_ = 0;
    int64_t next_host_request_ = 1;
    std::string human_;
    size_t humans_ = 0;
    bool listening_ = false;
    Pause bus_pause_;
    Pause admin_pause_;
    Instant accept_again_{};
    bool stopping_ = false;
    bool store_failed_ = false;
    bool watches_told_ = false;
};

// One line to standard error. Never with a capability or a message's body.
void log_line(const std::string& text);

}  // namespace mosaic::broker
