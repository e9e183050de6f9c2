// Text of users, candidates and imported records, made fit to print: control characters, those that
// turn or hide other text, and bytes that are no UTF-8 become escapes as in C ("\x1b", "\u202e"),
// and what is long is cut. Records and errors' details keep what was said; printers call this. The
// command line has its own, python/dlblas/_text.py.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlblas {

inline constexpr std::size_t kMaxWords = 400;       // of one text inside a sentence or a table
inline constexpr std::size_t kMaxMessage = 20'000;  // of a whole message

/// One line of at most `most` bytes before escapes; the cut is said.
std::string harmless(std::string_view from, std::size_t most = kMaxWords);
/// The same, where line breaks are the text's own: a message with a table.
std::string harmless_lines(std::string_view from, std::size_t most = kMaxMessage);

}  // namespace dlblas
