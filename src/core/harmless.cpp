// See harmless.hpp.
#include "core/harmless.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "core/utf8.hpp"

namespace dlblas {
namespace {

struct Codes {
  std::uint32_t first, last;
};
// Control characters, and Unicode 16's format characters: direction, joiners, invisible, tags.
constexpr Codes kUnfit[] = {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},
                            {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},
                            {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
                            {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
                            {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},
                            {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
                            {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f}};

bool is_unfit(std::uint32_t code) {
  return std::any_of(std::begin(kUnfit), std::end(kUnfit),
                     [code](Codes c) { return c.first <= code && code <= c.last; });
}

void append_escape(std::string& to, std::uint32_t code) {
  char s[16];
  if (code == '\n' || code == '\r' || code == '\t')
    std::snprintf(s, sizeof s, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
  else
    std::snprintf(s, sizeof s,
                  code < 0x100     ? "\\x%02x"
                  : code < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                  code);
  to += s;
}

std::string make_harmless(std::string_view from, std::size_t most, bool keep_lines) {
  std::string to;
  const std::size_t size = from.size();
  std::size_t at = 0;
  while (at < size && at < most) {
    std::uint32_t code = 0;
    const std::size_t length = utf8_character(from.substr(at), &code);
    if (length == 0 || (is_unfit(code) && !(keep_lines && code == '\n')))
      append_escape(to, length == 0 ? static_cast<unsigned char>(from[at]) : code);
    else
      to += from.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  if (at < size) to += "… (" + std::to_string(size - at) + " more bytes)";
  return to;
}

}  // namespace

std::string harmless(std::string_view from, std::size_t most) {
  return make_harmless(from, most, false);
}

std::string harmless_lines(std::string_view from, std::size_t most) {
  return make_harmless(from, most, true);
}

}  // namespace dlblas
