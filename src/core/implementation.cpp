// The words of a Support, and the table of implementations that have nothing to search.
#include "core/implementation.hpp"

namespace dlblas {

std::string Support::text() const {
  if (!reason_) return "yes";
  if (as_it_is_) return reason_;
  std::string s;
  int next = 0;
  for (const char* c = reason_; *c; ++c) {
    if (c[0] == '{' && c[1] == '}' && next < 3) {
      s += std::to_string(numbers_[next++]);
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
