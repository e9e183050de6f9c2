// The words of a Support, and the table of implementations that have nothing to search.
#include "core/implementation.hpp"

namespace dlblas {

std::string Support::text() const {
  return reason_ ? no_text(reason_, numbers_[0], numbers_[1], numbers_[2]) : "yes";
}

std::string Support::no_text(const char* reason, std::int64_t a, std::int64_t b, std::int64_t c3) {
  const std::int64_t numbers[3] = {a, b, c3};
  std::string s;
  int next = 0;
  for (const char* c = reason; *c; ++c) {
    if (c[0] == '{' && c[1] == '}' && next < 3) {
      s += std::to_string(numbers[next++]);
      ++c;
    } else {
      s += *c;
    }
  }
  return s;
}

const KnobTable& Implementation::no_knobs() {
  static const auto* table = new KnobTable;
  return *table;
}

}  // namespace dlblas
