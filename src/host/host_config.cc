// What the host does with its configuration while it runs.

#include "host/host.h"
#include "host/log.h"
#include "host/routes.h"
#include "wire/limits.h"

namespace mosaic::host {

void Host::on_routes(int64_t request) {
    wire::Reply reply = wire::reply_ok(request, routes_now(settings_, *runs_).to_value());
    if (wire::encode(reply).size() > limits::kFrameBytesMax) {
        reply = wire::reply_error(request,
                                  to_string(BusError::too_large),
                                  "the business has too many roles to tell of in one answer");
    }
    broker_->reply(reply);
}

void Host::take_config() {
    while (auto outcome = config_->take_outcome()) {
        if (outcome->replaced) {
            on_new_settings(*outcome);
        }
        if (outcome->result) {
            for (const std::string& warning : outcome->result->warnings) {
                log_line("warning: " + warning);
            }
            log_line(outcome->news.event + " by " + outcome->by +
                     (outcome->replaced ? "" : ": nothing is another value"));
            if (outcome->by_session) {
                outcome->result->warnings.clear();  // they name paths and variables of the host
            }
            broker_->reply(wire::reply_ok(outcome->request, outcome->result->to_value()));
            continue;
        }
        log_line("the configuration stays as it is, " + outcome->by +
                 " is refused: " + outcome->code + " (" + outcome->reason + ")");
        // A session learns the code of a refusal; paths and variables of the host are the human's.
        const bool hide = outcome->by_session && refusal_from(outcome->code);
        broker_->reply(wire::reply_error(
            outcome->request, outcome->code, hide ? std::string() : outcome->reason));
    }
}

void Host::on_new_settings(const ConfigKeeper::Outcome& outcome) {
    wire::BrokerConfig config = broker_config(settings_);
    config.news = outcome.news;
    // Before the reply to who asked, on the same stream: the event is there when the reply is.
    broker_->set_config(std::move(config));
    if (state_ == State::serving) {
        want_warm();
        drop_stale_warm();
    }
    if (outcome.business_only || state_ >= State::stopping) {
        return;
    }
    runs_->set_limits(settings_.system.limits);
    metrics_->serve(settings_.system.metrics_port);
    tidy_stage_ = true;
    probe_->forget();
    ignore(probe_->ask(false), "tried now, so that the next launch needn't wait");
    consider_waiting(false);
}

// Staged trees that neither the settings nor a session name any more. Those of sessions whose host
// died go with the first ones: they have ended by now, or are about to.
void Host::tidy_stage() {
    // A change that is being written has its trees already.
    if (!tidy_stage_ || !config_->quiet() || !trees_->quiet() || state_ != State::serving) {
        return;
    }
    tidy_stage_ = false;
    std::set<std::string> used;
    const auto use = [&](const std::string& path) {
        used.insert(path.substr(path.rfind('/') + 1));
    };
    for (const auto& [module, path] : settings_.stages) {
        use(path);
    }
    for (const std::string& path : runs_->stage_dirs()) {
        use(path);
    }
    trees_->keep_only(used);
}

}  // namespace mosaic::host
