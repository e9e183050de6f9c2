// Makes text from users, candidates and imported records safe to print: control characters, those
// that reverse or hide other text, and invalid UTF-8 become C escapes ("\x1b", "\u202e"), and long
// text is cut. Records and error details keep the original text; printers call this. The command
// line has its own version, python/dlblas/_text.py.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlblas {

inline constexpr std::size_t kMaxWords = 400;       // of one text inside a sentence or a table
inline constexpr std::size_t kMaxMessage = 20'000;  // of a whole message

/// One line of at most `most` bytes before escaping; a cut is marked.
std::string harmless(std::string_view from, std::size_t most = kMaxWords);
/// The same, but keeps line breaks: for a message with a table.
std::string harmless_lines(std::string_view from, std::size_t most = kMaxMessage);

}  // namespace dlblas
