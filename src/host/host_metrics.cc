// The metrics, for the human over admin.sock and for who asks on the port: the host's own, and the
// broker's behind them.

#include "host/host.h"
#include "host/metrics_text.h"
#include "process/usage.h"

namespace mosaic::host {

namespace {

// A broker that takes longer is busy or hangs; the host's own metrics say that it does.
constexpr Duration kBrokerTakes = seconds(2);

}  // namespace

// One question to the broker is for all who wait by the time it is answered.
void Host::measure() {
    if (!std::exchange(measuring_, true)) {
        loop_.set_timer(TimerKind::metrics_broker, 0, ++measure_generation_, kBrokerTakes);
        broker_->ask_metrics();
    }
}

void Host::on_measured(const std::string& brokers) {
    if (!std::exchange(measuring_, false)) {
        return;  // too late
    }
    ++measure_generation_;
    const std::string text = own_metrics() + brokers;
    for (const int64_t request : std::exchange(measures_asked_, {})) {
        broker_->reply(wire::reply_ok(request, json::Object{{"text", text}}));
    }
    metrics_->answer(text);
}

std::string Host::own_metrics() const {
    return host_metrics({.counts = loop_.counts,
                         .census = runs_->census(),
                         .ring = loop_.ring->facts(),
                         .ring_in_flight = loop_.ring->in_flight(),
                         .usage = process::usage_of_self(),
                         .started_ms = started_ms_,
                         .launch_connections = clients_->open_connections(),
                         .broker_up = broker_->ready()});
}

}  // namespace mosaic::host
