// The only exception type inside the library; the C ABI turns it into a status and a text.
// Grammar of every message: "<op>: <argument> <problem>; expected <x>, got <y>; <what to do>".
// No exception crosses the shared object's boundary: bindings/c catches (bindings/c/guard.hpp).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace dlblas {

/// Values are the C ABI's `dlblas_status`; 0 there means success.
enum class ErrorKind : std::int32_t {
  kShape = 1,
  kDType = 2,
  kDevice = 3,
  kArgument = 4,
  kUnknownOperator = 5,
  kUnsupported = 6,
  kCompile = 7,
  kLaunch = 8,
  kTuning = 9,
  kInternal = 10,
};

/// What a typed error carries besides its text; a field that does not apply is empty.
struct ErrorDetail {
  std::string op = {};
  std::string argument = {};
  std::string expected = {};
  std::string got = {};
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, ErrorDetail detail = {})
      : std::runtime_error(message), kind_(kind), detail_(std::move(detail)) {}
  ErrorKind kind() const { return kind_; }
  const ErrorDetail& detail() const { return detail_; }

 private:
  ErrorKind kind_;
  ErrorDetail detail_;
};

/// printf-like concatenation: `text("C = ", 4096, " from x")`.
namespace detail {
inline void append(std::string& s, const std::string& v) { s += v; }
inline void append(std::string& s, std::string_view v) { s += v; }
inline void append(std::string& s, const char* v) { s += v; }
inline void append(std::string& s, char v) { s += v; }
template <typename T>
requires std::is_arithmetic_v<T>
void append(std::string& s, T v) { s += std::to_string(v); }
}  // namespace detail

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::string s;
  (detail::append(s, parts), ...);
  return s;
}

}  // namespace dlblas
