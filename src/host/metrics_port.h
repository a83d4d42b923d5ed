#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "host/loop.h"
#include "metrics/http.h"

namespace mosaic::host {

// Connections at once. One more than are served: the last one taken makes the oldest give way, so
// that clients which say nothing don't keep a scraper out.
constexpr size_t kMetricsClientsMax = 9;
// From its accept on a connection has this long, whatever it does.
constexpr int64_t kMetricsClientMs = 5'000;

// The metrics over HTTP, on 127.0.0.1 and nowhere else: one request a connection, then it closes.
// Whoever can reach the machine's loopback can ask, sessions with its network included, so what is
// answered is the same for all and names nobody.
//
// Who asks gets its answer by answer(): take_question() says that somebody waits, and once for all
// who wait until then.
class MetricsPort {
  public:
    explicit MetricsPort(Loop& loop);
    MetricsPort(const MetricsPort&) = delete;
    MetricsPort& operator=(const MetricsPort&) = delete;
    ~MetricsPort() = default;

    // Serves this port from now on; 0: none. A port that can't be had is said on the log and tried
    // again every ten seconds: somebody else may hold it.
    void serve(int64_t port);

    // Somebody waits for the text, and hadn't when this was asked last.
    [[nodiscard]] bool take_question();
    // For all who wait.
    void answer(const std::string& text);

    void on_accept();
    void on_recv_done(uint32_t index);
    void on_send_done(uint32_t index);
    void on_client_timer(uint32_t index, uint32_t generation);
    void on_listen_timer();

    [[nodiscard]] size_t open_connections() const;

    // The port that is listened on, 0: none.
    [[nodiscard]] int64_t port() const { return listener_.valid() && !closing_ ? port_ : 0; }

    // Frees the slots of connections that are over and quiescent.
    void recycle();

  private:
    enum class Phase {
        free,
        reading,  // its request isn't whole yet
        waiting,  // for the text
        sending,
        draining,  // all is sent; what it may still send is dropped until it closes
        broken,    // nothing more is sent or taken
    };

    struct Client {
        Phase phase = Phase::free;
        uint32_t generation = 0;
        uint64_t number = 0;  // the order of their accepts
        UniqueFd socket;
        std::string head;
        std::array<char, 4096> buffer{};
        std::string response;
        size_t sent = 0;
        size_t dropped = 0;  // bytes past its request
        reactor::Op recv_op;
        reactor::Op send_op;
    };

    void listen();
    void try_again(Duration after);
    void accept_more();
    void add(UniqueFd socket);
    void make_room();
    void read_more(Client& client);
    void judge(Client& client);
    void respond(Client& client, metrics::HttpAsk ask, const std::string& body);
    void send_more(Client& client);
    static void break_off(Client& client);

    Loop& loop_;
    int64_t port_ = 0;
    UniqueFd listener_;
    bool closing_ = false;     // the listener closes once nothing waits on it
    bool complained_ = false;  // about the port
    bool timer_ = false;       // for another try
    bool question_ = false;
    uint64_t next_number_ = 0;
    std::array<Client, kMetricsClientsMax> clients_;
    reactor::Op accept_op_;
};

}  // namespace mosaic::host
