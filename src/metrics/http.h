#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// What of HTTP a scraper needs: the head of one GET of one path, and a response after which the
// connection closes. RFC 9112 for the syntax, RFC 9110 for the status codes.

namespace mosaic::metrics {

// A request's head, its empty line included. Scrapers send a few hundred bytes.
constexpr size_t kHttpHeadBytesMax = size_t{8} * 1024;

enum class HttpAsk {
    incomplete,   // more has to come
    metrics,      // GET /metrics, with or without a query
    not_found,    // GET of something else: 404
    not_allowed,  // another method: 405
    bad,          // no request, or a head that is too long: 400
};

// What the bytes of a connection so far ask for. Total: any bytes have an answer, and once it isn't
// `incomplete` more bytes don't change it. At most kHttpHeadBytesMax bytes are looked at.
[[nodiscard]] HttpAsk judge_request(std::string_view bytes);

// The whole response to it; `body` is for `metrics` alone. Not for `incomplete`.
[[nodiscard]] std::string http_response(HttpAsk ask, std::string_view body);

}  // namespace mosaic::metrics
