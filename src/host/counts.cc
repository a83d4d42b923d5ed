#include "host/counts.h"

#include <algorithm>

namespace mosaic::host {

std::string_view to_string(Stage stage) {
    constexpr std::array<std::string_view, kStages> kNames = {"checked",
                                                              "authorized",
                                                              "prepared",
                                                              "spawned",
                                                              "bound",
                                                              "persisted",
                                                              "delivered",
                                                              "claimed"};
    return kNames[static_cast<size_t>(stage)];
}

void Counts::launch(Instant asked, const std::array<Instant, kStages>& reached, bool was_warm) {
    Instant latest = asked;
    for (size_t i = 0; i < kStages; ++i) {
        stages[i].observe(reached[i] - latest);
        latest = std::max(latest, reached[i]);
    }
    (was_warm ? warm : cold).observe(reached.back() - asked);
}

}  // namespace mosaic::host
