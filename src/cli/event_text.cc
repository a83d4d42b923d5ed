#include "cli/event_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace mosaic::cli {

std::string rest_of(const json::Value& object, const std::vector<std::string_view>& shown) {
    std::string out;
    for (const json::Member& member : *object.object()) {
        const bool seen = std::find(shown.begin(), shown.end(), member.first) != shown.end();
        if (!seen && !member.second.is_null()) {
            const std::string* text = member.second.string();
            out += " " + member.first + "=" + (text != nullptr ? *text : dump(member.second));
        }
    }
    return out;
}

std::string event_text(const json::Value& event) {
    std::string head;
    for (const std::string_view key : {"seq", "at", "type"}) {
        const json::Value* value = event.find(key);
        if (value != nullptr) {
            head += (head.empty() ? "" : " ") +
                    (value->string() != nullptr ? *value->string() : dump(*value));
        }
    }
    return one_line(head + rest_of(event, {"seq", "at", "type"}));
}

}  // namespace mosaic::cli
