// Numbers as text and back with a point, whatever the locale of the process says: what records and
// lines of the log hold must read alike everywhere.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace dlblas {

/// At most `significant` digits, as %g prints them.
inline std::string digits(double value, int significant) {
  char s[64];
  return {s, std::to_chars(s, s + sizeof s, value, std::chars_format::general, significant).ptr};
}

/// `count` digits after the point, of values below 10²⁰.
inline std::string decimals(double value, int count) {
  char s[64];
  return {s, std::to_chars(s, s + sizeof s, value, std::chars_format::fixed, count).ptr};
}

/// Milliseconds as they are told everywhere, in one unit, so that times compare: "3.816 µs",
/// "26596 µs"; "-" below 0. Lines of the log have `unit` "us" without a space.
inline std::string microseconds(double ms, std::string_view unit = " µs") {
  if (ms < 0) return "-";
  return (ms < 1 ? digits(ms * 1e3, 4) : decimals(ms * 1e3, 0)).append(unit);
}

/// The number that is all of `word`, else `otherwise`.
inline double number_in(std::string_view word, double otherwise) {
  double value = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
  return failed == std::errc() && end == word.data() + word.size() ? value : otherwise;
}

}  // namespace dlblas
