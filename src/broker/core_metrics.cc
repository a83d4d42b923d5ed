// The host's verb `metrics`: what the broker counts. The human's is the host's to answer, with this
// in it.

#include "broker/core.h"

namespace mosaic::broker {

Result<Outcome> Core::metrics(const wire::Request& request) {
    json::Reader r(request.args, "args");
    if (const auto shape = r.done(); !shape) {
        return error(request.id, BusError::bad_request, shape.error().text);
    }
    MOSAIC_TRY_ASSIGN(const Queued queued, store_.queued());
    MOSAIC_TRY_ASSIGN(const int64_t live, store_.count_live_runs());
    std::string text =
        broker_metrics({counts_, process::usage_of_self(), queued.messages, queued.bytes, live});
    return answer(request.id, json::Object{{"text", std::move(text)}});
}

}  // namespace mosaic::broker
