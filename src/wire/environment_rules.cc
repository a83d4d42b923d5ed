#include "wire/environment_rules.h"

#include <algorithm>
#include <array>

namespace mosaic::wire {
namespace {

constexpr std::array<std::string_view, 5> kForbiddenNames = {
    "GITEA_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "MOSAIC_CONFIG"};
constexpr std::array<std::string_view, 2> kForbiddenPrefixes = {"VIKUNJA_", "AWS_"};
constexpr size_t kNameBytesMax = 256;

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace

bool is_forbidden_variable(std::string_view name) {
    return std::find(kForbiddenNames.begin(), kForbiddenNames.end(), name) !=
               kForbiddenNames.end() ||
           std::any_of(kForbiddenPrefixes.begin(),
                       kForbiddenPrefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_variable_name(std::string_view name) {
    return !name.empty() && name.size() <= kNameBytesMax && is_letter(name.front()) &&
           std::all_of(
               name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

}  // namespace mosaic::wire
