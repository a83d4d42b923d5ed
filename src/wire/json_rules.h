#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

#include "wire/json.h"

// Rules of json.h that neither parser brings along, in one place for both.

namespace mosaic::json {

// Nobody writes an exponent of so many digits. simdjson refuses those of 20 and more and
// nlohmann-json reads them as 0, so the line is drawn here, well before either.
constexpr size_t kExponentDigitsMax = 9;

// `number` is a number's text, perhaps with what follows it.
[[nodiscard]] inline bool exponent_too_long(std::string_view number) {
    const size_t e = number.find_first_of("eE");
    if (e == std::string_view::npos) {
        return false;
    }
    const size_t start = std::min(number.find_first_not_of("+-", e + 1), number.size());
    const size_t end = std::min(number.find_first_not_of("0123456789", start), number.size());
    return end - start > kExponentDigitsMax;
}

// Whether a key stands twice in one object. A peer may fill a line with keys, so a look at all that
// came before must not happen for each of them.
class KeySet {
  public:
    // False when `key` is among `members`, which are all that add() was called with, or was added
    // before. To be called with every key of the object, before its member is there.
    [[nodiscard]] bool add(const Object& members, const std::string& key) {
        if (members.size() < kFewMembers) {
            return std::none_of(
                members.begin(), members.end(), [&](const Member& m) { return m.first == key; });
        }
        if (keys_.empty()) {
            for (const Member& member : members) {
                keys_.insert(member.first);
            }
        }
        return keys_.insert(key).second;
    }

  private:
    // Nearly all objects have fewer: comparing them is quicker than hashing.
    static constexpr size_t kFewMembers = 24;

    std::unordered_set<std::string> keys_;
};

}  // namespace mosaic::json
