// A scalar's default in Python syntax, which torch's schemas accept too: `1e-06`, `0.0`, `False`,
// `'gelu'`, `None`.
#pragma once

#include <charconv>
#include <string>

#include "core/schema.hpp"

namespace dlblas {

inline std::string literal(const ScalarSpec& s) {
  switch (s.type) {
    case ScalarType::kInt:
      return std::to_string(s.default_value.i);
    case ScalarType::kBool:
      return s.default_value.i ? "True" : "False";
    case ScalarType::kEnum:
      return "'" + s.labels[static_cast<std::size_t>(s.default_value.i)] + "'";
    case ScalarType::kDType:
      return "None";
    case ScalarType::kFloat:
      break;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, s.default_value.f).ptr;
  std::string number(digits, end);
  if (number.find_first_of(".ein") == std::string::npos) number += ".0";
  return number;
}

}  // namespace dlblas
