// Writes JSON for people and scripts: explain, info, tuning reports. The library never parses any.
// In: calls in document order. Out: one line of valid UTF-8, whatever bytes a path or a variable
// holds. Numbers that JSON cannot express (NaN, infinities) become null.
//
//   JsonWriter w;
//   w.open_object().field("name", "matmul").key("ms").open_array().value(0.5).close_array();
//   w.close_object().text()  ->  {"name":"matmul","ms":[0.5]}
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/utf8.hpp"

namespace dlblas {

class JsonWriter {
 public:
  JsonWriter& open_object() { return open('{'); }
  JsonWriter& close_object() { return close('}'); }
  JsonWriter& open_array() { return open('['); }
  JsonWriter& close_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    value(name);
    text_ += ':';
    comma_ = false;
    return *this;
  }
  JsonWriter& value(std::string_view v) {
    separate();
    text_ += '"';
    while (!v.empty()) v.remove_prefix(append_character(v));
    text_ += '"';
    return *this;
  }
  JsonWriter& value(const char* v) { return value(std::string_view(v)); }
  JsonWriter& value(const std::string& v) { return value(std::string_view(v)); }
  template <typename T>
  requires std::is_arithmetic_v<T> JsonWriter& value(T v) {
    separate();
    if constexpr (std::is_same_v<T, bool>) {
      text_ += v ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      char digits[32];
      if (std::isfinite(v))
        text_.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
      else
        text_ += "null";
    } else {
      text_ += std::to_string(v);
    }
    return *this;
  }
  template <typename T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  JsonWriter& null() {
    separate();
    text_ += "null";
    return *this;
  }
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  JsonWriter& open(char bracket) {
    separate();
    text_ += bracket;
    comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    comma_ = true;
    return *this;
  }
  void separate() {
    if (comma_) text_ += ',';
    comma_ = true;
  }
  // Appends the first character of `s`, or the replacement character for an invalid byte; returns
  // the bytes consumed.
  std::size_t append_character(std::string_view s) {
    std::uint32_t code = 0;
    const std::size_t length = utf8_character(s, &code);
    if (length == 1)
      append_escaped(s[0]);
    else
      text_ += length ? s.substr(0, length) : "\xef\xbf\xbd";
    return length ? length : 1;
  }
  void append_escaped(char c) {
    constexpr char kHex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text_ += "\\u00";
      text_ += kHex[(c >> 4) & 15];
      text_ += kHex[c & 15];
    } else {
      text_ += c;
    }
  }

  std::string text_;
  bool comma_ = false;  // the next value follows another one
};

}  // namespace dlblas
