// The words of a Support; the space and the default configuration of an implementation.
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

Space make_space(const Query& q) {
  Space space(q.self.table());
  if (q.self.constrain) q.self.constrain(q, space);
  return space;
}

Config default_config(const Query& q) { return q.self.heuristic ? q.self.heuristic(q) : Config{}; }

}  // namespace dlblas
