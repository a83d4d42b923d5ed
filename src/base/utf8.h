#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mosaic {

// How many leading bytes of `text` are well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing past U+10FFFF). Equal to text.size() when all of it is.
[[nodiscard]] size_t valid_utf8_prefix(std::string_view text);

// The text with each byte that isn't part of well-formed UTF-8 replaced by U+FFFD.
[[nodiscard]] std::string to_valid_utf8(std::string_view text);

// For a person's terminal: control characters (C0 but newline and tab, DEL, C1) and bidirectional
// marks (U+061C, U+200E, U+200F, U+202A-202E, U+2066-2069) become visible \u escapes, so that a
// message can't move the cursor, set the clipboard or reorder what is read. JSON text stays JSON of
// the same value: outside of its strings there are none of these.
[[nodiscard]] std::string escape_for_terminal(std::string_view text);

// For what must not stay out of sight: also what a terminal shows as nothing becomes \u escapes, in
// two halves past U+FFFF, as JSON has them. That is Default_Ignorable_Code_Point of Unicode 15.0
// (DerivedCoreProperties.txt; tags, variation selectors, joiners, fillers) and the separators and
// annotations U+2028, U+2029 and U+FFF9-FFFB. Some writing needs joiners and shows escapes, then.
[[nodiscard]] std::string escape_invisible(std::string_view text);

// escape_for_terminal on one line, newlines and tabs made spaces: what a text quotes can't begin a
// line of a log, or of a list, that looks like another's.
[[nodiscard]] std::string one_line(std::string_view text);

// A path in a line of text: as escape_for_terminal, newlines and tabs as \n and \t, and each byte
// that isn't part of well-formed UTF-8 as \xNN, so that any two paths are told apart.
[[nodiscard]] std::string escape_path(std::string_view text);

}  // namespace mosaic
