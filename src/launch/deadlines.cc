#include "launch/deadlines.h"

#include <algorithm>

namespace mosaic::launch {

Duration time_for(Phase phase, const Times& times, Duration since_spawn) {
    switch (phase) {
        case Phase::authorizing:
            return kBrokerTakes;
        case Phase::queued:
            return milliseconds(times.setup_wait_ms);
        case Phase::spawning:
            return milliseconds(times.runner_pid_ms);
        case Phase::binding:
        case Phase::persisting:
            return Duration{std::max<int64_t>(0, milliseconds(times.claim_ms).ns - since_spawn.ns)};
        case Phase::stopping:
            return milliseconds(times.stop_ms);
        case Phase::preparing:
        case Phase::warm:
        case Phase::delivering:
        case Phase::claiming:
        case Phase::live:
        case Phase::killing:
        case Phase::ending:
        case Phase::unrecording:
        case Phase::over:
            break;
    }
    return kKillTakes;
}

Duration time_away(Instant last_tick, Instant nearest_deadline, Instant now) {
    return now - nearest_deadline > kLateTick ? now - last_tick : Duration{};
}

}  // namespace mosaic::launch
