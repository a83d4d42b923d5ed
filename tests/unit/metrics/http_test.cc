// Goal: one GET of /metrics is answered, everything else refused by its status. Method: requests as
// browsers, scrapers and others send them; every prefix of each.

#include "metrics/http.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace mosaic::metrics;

namespace {

const std::vector<std::pair<std::string, HttpAsk>> kRequests = {
    {"GET /metrics HTTP/1.0\r\n\r\n", HttpAsk::metrics},
    {"GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\nAccept: text/plain\r\n\r\n",
     HttpAsk::metrics},
    {"GET /metrics?collect=all HTTP/1.1\r\nHost: x\r\n\r\n", HttpAsk::metrics},
    {"GET /metrics HTTP/1.0\n\n", HttpAsk::metrics},
    {"GET /metrics HTTP/1.0\r\n\n", HttpAsk::metrics},
    {"GET / HTTP/1.1\r\n\r\n", HttpAsk::not_found},
    {"GET /metrics/ HTTP/1.1\r\n\r\n", HttpAsk::not_found},
    {"GET /../metrics HTTP/1.1\r\n\r\n", HttpAsk::not_found},
    {"GET http://localhost/metrics HTTP/1.1\r\n\r\n", HttpAsk::not_found},
    {"POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\n", HttpAsk::not_allowed},
    {"HEAD /metrics HTTP/1.1\r\n\r\n", HttpAsk::not_allowed},
    {"get /metrics HTTP/1.1\r\n\r\n", HttpAsk::not_allowed},
    {"CONNECT localhost:22 HTTP/1.1\r\n\r\n", HttpAsk::not_allowed},
    {"GET /metrics\r\n\r\n", HttpAsk::bad},
    {"GET  HTTP/1.1\r\n\r\n", HttpAsk::bad},
    {"GET /metrics HTTP/2.0\r\n\r\n", HttpAsk::bad},
    {"GET /metrics HTTP/1.1 \r\n\r\n", HttpAsk::bad},
    {"GET /met rics HTTP/1.1\r\n\r\n", HttpAsk::bad},
    {"GET /met\trics HTTP/1.1\r\n\r\n", HttpAsk::bad},
    {"G{T /metrics HTTP/1.1\r\n\r\n", HttpAsk::bad},
    {"\r\n\r\n", HttpAsk::bad},
    {"\n\n", HttpAsk::bad},
    {"\x16\x03\x01\x02\n\n", HttpAsk::bad},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HttpAsk::bad},
};

}  // namespace

TEST_CASE("a request is judged once its head is whole and not before") {
    for (const auto& [text, expected] : kRequests) {
        CAPTURE(text);
        size_t whole = 0;
        while (whole < text.size() && judge_request(text.substr(0, whole)) == HttpAsk::incomplete) {
            ++whole;
        }
        CHECK(judge_request(text.substr(0, whole)) == expected);
        // What follows it changes nothing.
        for (size_t size = whole; size <= text.size(); ++size) {
            CHECK(judge_request(text.substr(0, size)) == expected);
        }
        CHECK(judge_request(text + std::string(2 * kHttpHeadBytesMax, 'x')) == expected);
    }
}

TEST_CASE("a head without an end is refused at the limit") {
    const std::string endless =
        "GET /metrics HTTP/1.1\r\nA: " + std::string(2 * kHttpHeadBytesMax, 'a');
    CHECK(judge_request(endless.substr(0, kHttpHeadBytesMax - 1)) == HttpAsk::incomplete);
    CHECK(judge_request(endless.substr(0, kHttpHeadBytesMax)) == HttpAsk::bad);
    // An end past the limit is none.
    CHECK(judge_request(endless + "\r\n\r\n") == HttpAsk::bad);
    const std::string start = "GET /metrics HTTP/1.1\r\nA: ";
    const std::string longest =
        start + std::string(kHttpHeadBytesMax - start.size() - 4, 'a') + "\r\n\r\n";
    CHECK(judge_request(longest) == HttpAsk::metrics);
    CHECK(judge_request("a" + longest) == HttpAsk::bad);
}

TEST_CASE("a response says its status, what it holds and that nothing follows") {
    CHECK(http_response(HttpAsk::metrics, "a 1\n") ==
          "HTTP/1.0 200 OK\r\n"
          "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
          "Content-Length: 4\r\n"
          "X-Content-Type-Options: nosniff\r\n"
          "Connection: close\r\n\r\na 1\n");
    CHECK(http_response(HttpAsk::not_allowed, "secret") ==
          "HTTP/1.0 405 Method Not Allowed\r\n"
          "Content-Type: text/plain; charset=utf-8\r\n"
          "Content-Length: 19\r\n"
          "Allow: GET\r\n"
          "X-Content-Type-Options: nosniff\r\n"
          "Connection: close\r\n\r\nMethod Not Allowed\n");
    CHECK(http_response(HttpAsk::not_found, "secret").starts_with("HTTP/1.0 404 Not Found\r\n"));
    CHECK(http_response(HttpAsk::bad, "secret").find("secret") == std::string::npos);
}
