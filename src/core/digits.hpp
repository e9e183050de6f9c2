// Numbers to text and back, always with a decimal point, whatever the process's locale: records and
// log lines must read the same everywhere.
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

/// Milliseconds as every report prints them, in one unit, so that times compare: "-" below 0, else
/// as "3.816 µs" or "26596 µs". Log lines pass `unit` "us", without a space.
inline std::string microseconds(double ms, std::string_view unit = " µs") {
  if (ms < 0) return "-";
  return (ms < 1 ? digits(ms * 1e3, 4) : decimals(ms * 1e3, 0)).append(unit);
}

/// The number, if `word` is exactly one; else `otherwise`.
inline double number_in(std::string_view word, double otherwise) {
  double value = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
  return failed == std::errc() && end == word.data() + word.size() ? value : otherwise;
}

}  // namespace dlblas
