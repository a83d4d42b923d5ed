// How the host keeps warm seats: how many each instance shall have, when the next is made, and
// which are of yesterday's configuration.

#include "host/host.h"
#include "host/log.h"

namespace mosaic::host {

void Host::want_warm() {
    std::map<std::string, int64_t> wanted;
    for (const auto& [name, instance] : settings_.business.roles) {
        if (instance.warm > 0) {
            wanted.emplace(name, instance.warm);
        }
    }
    warm_.want(wanted);
    // What was waited for may be asked of settings that are gone.
    warm_waits_ = false;
    warm_again_ = false;
}

// By the settings as they are now. A seat whose instance can't even be planned is stale, too.
void Host::drop_stale_warm() {
    for (const std::string& instance : runs_->warm_instances()) {
        const int64_t wanted = warm_.wanted(instance);
        if (wanted == 0) {
            runs_->discard_warm(instance, "", 0);
            continue;
        }
        const Decision decision = decide_warm(admission(), instance, false);
        if (!decision.ask_again) {
            runs_->discard_warm(instance, decision.plan.fit, wanted);
        }
    }
}

// One at a time, and only while no launch could want what it takes. True when it has begun one.
bool Host::fill_warm() {
    if (state_ != State::serving || warm_waits_) {
        return false;
    }
    const auto instance = warm_.next(loop_.now);
    if (!instance) {
        const auto at = warm_.next_at();
        if (at && (!warm_timer_ || *at < *warm_timer_)) {
            warm_timer_ = *at;
            loop_.set_timer(TimerKind::warm_retry, 0, 0, *at - loop_.now);
        }
        return false;
    }
    if (!runs_->may_warm()) {
        return false;
    }
    Decision decision = decide_warm(admission(), *instance, warm_again_);
    warm_again_ = false;
    if (decision.ask_again) {
        warm_waits_ = true;
        return false;
    }
    if (decision.refusal) {
        if (warm_.not_begun(*instance, loop_.now)) {
            log_line("no warm seat of " + *instance +
                     " can be made: " + std::string(to_string(*decision.refusal)) + " (" +
                     decision.reason + "); trying again");
        }
        return true;  // another instance may do better
    }
    if (!runs_->begin_warm(std::move(decision.plan))) {
        return false;
    }
    warm_.begun(*instance);
    return true;
}

void Host::warm_waited(bool again) {
    warm_again_ = std::exchange(warm_waits_, false) && again;
}

void Host::take_warm() {
    while (const auto news = runs_->take_warm_news()) {
        switch (news->kind) {
            case WarmNews::Kind::taken:
                warm_.taken(news->instance);
                break;
            case WarmNews::Kind::discarded:
                warm_.discarded(news->instance);
                break;
            case WarmNews::Kind::failed:
                if (warm_.failed(news->instance, loop_.now, news->waited)) {
                    log_line("a warm seat of " + news->instance + " failed: " + news->why +
                             "; making another");
                }
                break;
        }
    }
}

}  // namespace mosaic::host
