// A JSON writer, in order, with no tree: `info`, `explain` and reports are written with it. The library
// writes JSON and never parses any. Numbers that JSON cannot hold (NaN, Inf) become null.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace dlblas {

class JsonWriter {
 public:
  JsonWriter& open_object() { return open('{'); }
  JsonWriter& close_object() { return close('}'); }
  JsonWriter& open_array() { return open('['); }
  JsonWriter& close_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    comma();
    quote(name);
    out_ += ':';
    fresh_ = true;
    return *this;
  }
  JsonWriter& value(std::string_view s) {
    comma();
    quote(s);
    return *this;
  }
  JsonWriter& value(const char* s) { return value(std::string_view(s)); }
  JsonWriter& value(bool b) { return raw(b ? "true" : "false"); }
  JsonWriter& value(std::int64_t i) { return raw(std::to_string(i)); }
  JsonWriter& value(std::uint64_t i) { return raw(std::to_string(i)); }
  JsonWriter& value(int i) { return raw(std::to_string(i)); }
  JsonWriter& value(double d) {
    if (!std::isfinite(d)) return null();
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", d);
    return raw(text);
  }
  JsonWriter& null() { return raw("null"); }
  template <typename T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  const std::string& text() const { return out_; }

 private:
  JsonWriter& open(char c) {
    comma();
    out_ += c;
    fresh_ = true;
    return *this;
  }
  JsonWriter& close(char c) {
    out_ += c;
    fresh_ = false;
    return *this;
  }
  JsonWriter& raw(std::string_view s) {
    comma();
    out_ += s;
    return *this;
  }
  void comma() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  void quote(std::string_view s) {
    out_ += '"';
    for (char c : s) {
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char text[8];
        std::snprintf(text, sizeof text, "\\u%04x", c);
        out_ += text;
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }
  std::string out_;
  bool fresh_ = true;
};

}  // namespace dlblas
