// Decodes one character of UTF-8, for code that prints text from outside: JSON and records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dlblas {

/// Length of the character at the start of `s` (not empty), and its code in `*code`; 0 for invalid
/// bytes: stray ones, overlong forms, surrogates, values past U+10FFFF.
inline std::size_t utf8_character(std::string_view s, std::uint32_t* code) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(0);
  *code = lead;
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || s.size() < length) return 0;
  *code = lead & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *code >= 0xd800 && *code <= 0xdfff;
  return *code >= kSmallest[length] && *code <= 0x10ffff && !surrogate ? length : 0;
}

}  // namespace dlblas
