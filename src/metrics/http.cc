#include "metrics/http.h"

#include <algorithm>

#include "base/assert.h"
#include "metrics/writer.h"

namespace mosaic::metrics {
namespace {

// Of RFC 9110's token.
bool is_token_char(char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_visible(char c) {
    return c > ' ' && c < '\x7f';
}

bool all_of(std::string_view text, bool (*what)(char)) {
    return !text.empty() && std::all_of(text.begin(), text.end(), what);
}

bool is_version(std::string_view text) {
    return text == "HTTP/1.0" || text == "HTTP/1.1";
}

HttpAsk judge_line(std::string_view line) {
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
        return HttpAsk::bad;
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    if (!all_of(method, is_token_char) || !all_of(target, is_visible) ||
        !is_version(line.substr(last + 1))) {
        return HttpAsk::bad;
    }
    if (method != "GET") {
        return HttpAsk::not_allowed;
    }
    const std::string_view path = target.substr(0, target.find('?'));
    return path == "/metrics" ? HttpAsk::metrics : HttpAsk::not_found;
}

std::string_view status_of(HttpAsk ask) {
    switch (ask) {
        case HttpAsk::metrics:
            return "200 OK";
        case HttpAsk::not_found:
            return "404 Not Found";
        case HttpAsk::not_allowed:
            return "405 Method Not Allowed";
        case HttpAsk::bad:
            return "400 Bad Request";
        case HttpAsk::incomplete:
            break;
    }
    MOSAIC_ASSERT(false);
}

}  // namespace

HttpAsk judge_request(std::string_view bytes) {
    const std::string_view seen = bytes.substr(0, kHttpHeadBytesMax);
    // Lines may end with a bare newline (RFC 9112, 2.2).
    const size_t end = std::min(seen.find("\n\r\n"), seen.find("\n\n"));
    if (end == std::string_view::npos) {
        return bytes.size() >= kHttpHeadBytesMax ? HttpAsk::bad : HttpAsk::incomplete;
    }
    std::string_view line = seen.substr(0, seen.find('\n'));
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
    }
    return judge_line(line);
}

std::string http_response(HttpAsk ask, std::string_view body) {
    const std::string status(status_of(ask));
    const bool found = ask == HttpAsk::metrics;
    const std::string content = found ? std::string(body) : status.substr(4) + "\n";
    std::string out = "HTTP/1.0 " + status + "\r\nContent-Type: ";
    out += found ? kContentType : "text/plain; charset=utf-8";
    out += "\r\nContent-Length: " + std::to_string(content.size());
    out += ask == HttpAsk::not_allowed ? "\r\nAllow: GET" : "";
    out += "\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
    return out + content;
}

}  // namespace mosaic::metrics
