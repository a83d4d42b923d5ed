#include "wire/lines.h"

#include <algorithm>

#include "base/secret.h"

namespace mosaic::wire {

std::optional<std::string> LineBuffer::next() {
    const size_t end = bytes_.find('\n', std::max(start_, scanned_));
    if (end == std::string::npos) {
        scanned_ = bytes_.size();
        if (start_ > 0) {
            bytes_.erase(0, start_);
            scanned_ -= start_;
            start_ = 0;
        }
        return std::nullopt;
    }
    if (end - start_ > line_bytes_max_) {
        return std::nullopt;
    }
    std::string line = bytes_.substr(start_, end - start_);
    start_ = end + 1;
    scanned_ = start_;
    return line;
}

bool LineBuffer::overlong() const {
    if (bytes_.size() - start_ <= line_bytes_max_) {
        return false;  // without a search: bytes may come one by one
    }
    const size_t end = std::min(bytes_.find('\n', start_), bytes_.size());
    return end - start_ > line_bytes_max_;
}

std::string LineBuffer::take_rest() {
    std::string rest = bytes_.substr(start_);
    bytes_.clear();
    start_ = 0;
    scanned_ = 0;
    return rest;
}

void LineBuffer::wipe_all() {
    wipe(bytes_);
    start_ = 0;
    scanned_ = 0;
}

}  // namespace mosaic::wire
