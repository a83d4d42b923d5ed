#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace mosaic::launch {

// What the host asks the broker.
enum class RequestKind : uint8_t {
    config,
    bound,
    authorize,
    bind,
    end,           // of a run
    end_leftover,  // of what an earlier host left
    refuse,
    metrics,
};
constexpr size_t kRequestKinds = static_cast<size_t>(RequestKind::metrics) + 1;

[[nodiscard]] constexpr std::string_view to_string(RequestKind kind) {
    constexpr std::array<std::string_view, kRequestKinds> kNames = {
        "config", "bound", "authorize", "bind", "end", "end_leftover", "refuse", "metrics"};
    return kNames[static_cast<size_t>(kind)];
}

// Whether a request outlives the broker that didn't answer it: an ending does, because the run must
// end; whoever asked for anything else is told that it failed.
[[nodiscard]] constexpr bool outlives_broker(RequestKind kind) {
    return kind == RequestKind::end || kind == RequestKind::end_leftover;
}

// The requests that wait for an answer, by the number they went out with, and the endings that no
// broker has recorded yet. `Request` has a member `RequestKind kind`.
template <class Request>
class Requests {
  public:
    // The number to send it with.
    [[nodiscard]] int64_t ask(Request request) {
        waiting_.emplace(next_id_, std::move(request));
        return next_id_++;
    }

    // What this number asked; nothing for an answer to nothing of ours, a second one included.
    [[nodiscard]] std::optional<Request> take_answered(int64_t id) {
        const auto found = waiting_.find(id);
        if (found == waiting_.end()) {
            return std::nullopt;
        }
        Request request = std::move(found->second);
        waiting_.erase(found);
        return request;
    }

    // The broker is gone: endings are kept for the next, the rest is returned in its order.
    [[nodiscard]] std::vector<Request> lose_broker() {
        std::vector<Request> lost;
        std::map<int64_t, Request> waiting = std::exchange(waiting_, {});
        for (auto& [id, request] : waiting) {
            if (outlives_broker(request.kind)) {
                keep(std::move(request));
            } else {
                lost.push_back(std::move(request));
            }
        }
        return lost;
    }

    // An ending that can't be sent, or was answered by a failure: to be asked later.
    void keep(Request request) { kept_.push_back(std::move(request)); }

    // The endings to ask now.
    [[nodiscard]] std::deque<Request> take_kept() { return std::exchange(kept_, {}); }

    // A request of this kind has gone out and isn't answered.
    [[nodiscard]] bool waits(RequestKind kind) const {
        return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& one) {
            return one.second.kind == kind;
        });
    }

    // Something has gone out and isn't answered.
    [[nodiscard]] bool waits() const { return !waiting_.empty(); }

    // Endings that the broker has yet to confirm.
    [[nodiscard]] size_t ends_waiting() const {
        size_t ends = kept_.size();
        for (const auto& [id, request] : waiting_) {
            ends += outlives_broker(request.kind) ? size_t{1} : size_t{0};
        }
        return ends;
    }

  private:
    int64_t next_id_ = 1;
    std::map<int64_t, Request> waiting_;
    std::deque<Request> kept_;
};

}  // namespace mosaic::launch
