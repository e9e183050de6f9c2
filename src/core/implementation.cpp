// The text of a Support; the space and the default configuration of an implementation.
#include "core/implementation.hpp"

#include "core/error.hpp"
#include "core/nested.hpp"
#include "core/schema.hpp"

namespace dlblas {

std::string Support::print(const Schema* schema) const {
  if (!reason_) return "yes";
  if (words_) return *words_;
  std::string s;
  int next = 0;
  for (const char* c = reason_; *c; ++c) {
    if (c[0] != '{' || c[1] != '}' || next == 3) {
      s += *c;
      continue;
    }
    const ReasonPart& part = parts_[next++];
    if (!part.is_tensor)
      s += std::to_string(part.value);
    else
      s += schema ? schema->tensors[static_cast<std::size_t>(part.value)].name : "a tensor";
    ++c;
  }
  return s;
}

std::string Support::text(const Schema& schema) const { return print(&schema); }
std::string Support::text() const { return print(nullptr); }

const Nested& Kernel::part(int index) const {
  if (index < 0 || index >= num_parts)
    throw Error(
        ErrorKind::kInternal,
        dlblas::text("kernel: part ", index, " was called; expected one of its ", num_parts),
        {.argument = "part"});
  return *parts[index];
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
