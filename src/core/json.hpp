// Writes JSON for people and scripts: explain, info, tuning reports. The library never parses any.
// In: calls in document order. Out: one line of UTF-8 text. Numbers that JSON has no word for (NaN,
// infinities) become null.
//
//   Json j;
//   j.object().key("name").value("matmul").key("ms").array().value(0.5).close().close();
//   j.text()  ->  {"name":"matmul","ms":[0.5]}
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace dlblas {

class Json {
 public:
  Json& object() { return open('{', '}'); }
  Json& array() { return open('[', ']'); }
  /// Closes the innermost object or array.
  Json& close() {
    text_ += closers_.back();
    closers_.pop_back();
    comma_ = true;
    return *this;
  }
  Json& key(std::string_view name) {
    value(name);
    text_ += ':';
    comma_ = false;
    return *this;
  }
  Json& value(std::string_view v) {
    separate();
    text_ += '"';
    for (const char c : v) append_escaped(c);
    text_ += '"';
    return *this;
  }
  Json& value(const char* v) { return value(std::string_view(v)); }
  Json& value(const std::string& v) { return value(std::string_view(v)); }
  template <typename T>
  requires std::is_arithmetic_v<T> Json& value(T v) {
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
  Json& null() {
    separate();
    text_ += "null";
    return *this;
  }
  /// A value that is JSON already.
  Json& raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  Json& open(char opener, char closer) {
    separate();
    text_ += opener;
    closers_ += closer;
    comma_ = false;
    return *this;
  }
  void separate() {
    if (comma_) text_ += ',';
    comma_ = true;
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
  std::string closers_;  // of the objects and arrays that are open
  bool comma_ = false;   // the next value follows another one
};

}  // namespace dlblas
