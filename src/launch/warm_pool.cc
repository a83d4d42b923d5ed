#include "launch/warm_pool.h"

#include <algorithm>

#include "base/assert.h"

namespace mosaic::launch {

void WarmPool::want(const std::map<std::string, int64_t>& wanted) {
    for (auto& [instance, seats] : instances_) {
        seats.wanted = 0;
        seats.failures = 0;
        seats.not_before = {};
    }
    for (const auto& [instance, number] : wanted) {
        if (number > 0) {
            instances_[instance].wanted = number;
        }
    }
    std::erase_if(instances_,
                  [](const auto& one) { return one.second.wanted == 0 && one.second.have == 0; });
    count();
}

// Asked at every turn of the loop, so that it is known without a look at each instance.
void WarmPool::count() {
    lacking_ = std::count_if(instances_.begin(), instances_.end(), [](const auto& one) {
        return one.second.have < one.second.wanted;
    });
}

int64_t WarmPool::wanted(const std::string& instance) const {
    const auto found = instances_.find(instance);
    return found == instances_.end() ? 0 : found->second.wanted;
}

std::optional<std::string> WarmPool::next(Instant now) const {
    if (lacking_ == 0) {
        return std::nullopt;
    }
    const auto may = [&](const Seats& seats) {
        return seats.have < seats.wanted && seats.not_before <= now;
    };
    const auto found =
        std::min_element(instances_.begin(), instances_.end(), [&](const auto& a, const auto& b) {
            return may(a.second) != may(b.second) ? may(a.second) : a.second.have < b.second.have;
        });
    return may(found->second) ? std::optional<std::string>(found->first) : std::nullopt;
}

std::optional<Instant> WarmPool::next_at() const {
    std::optional<Instant> at;
    for (const auto& [instance, seats] : instances_) {
        if (seats.have < seats.wanted && (!at || seats.not_before < *at)) {
            at = seats.not_before;
        }
    }
    return at;
}

void WarmPool::begun(const std::string& instance) {
    ++instances_[instance].have;
    count();
}

void WarmPool::taken(const std::string& instance) {
    Seats& seats = instances_[instance];
    seats.failures = 0;
    seats.not_before = {};
    discarded(instance);
}

void WarmPool::discarded(const std::string& instance) {
    Seats& seats = instances_[instance];
    MOSAIC_ASSERT(seats.have > 0);
    --seats.have;
    if (seats.have == 0 && seats.wanted == 0) {
        instances_.erase(instance);
    }
    count();
}

// Several that end together are one failure.
bool WarmPool::put_off(Seats& seats, Instant now) {
    if (now < seats.not_before) {
        return false;
    }
    Duration delay = kWarmRetryMin;
    for (uint32_t i = 0; i < seats.failures && delay < kWarmRetryMax; ++i) {
        delay = Duration{2 * delay.ns};
    }
    seats.not_before = now + std::min(delay, kWarmRetryMax);
    return seats.failures++ == 0;
}

bool WarmPool::failed(const std::string& instance, Instant now, Duration waited) {
    Seats& seats = instances_[instance];
    if (waited >= kWarmSteady) {
        seats.failures = 0;
    }
    const bool first = put_off(seats, now);
    discarded(instance);
    return first;
}

bool WarmPool::not_begun(const std::string& instance, Instant now) {
    return put_off(instances_[instance], now);
}

}  // namespace mosaic::launch
