// See extent.hpp.
#include "dispatch/extent.hpp"

#include "core/digits.hpp"

namespace dlblas {
namespace {

std::string_view value_of(const Fields& env, std::string_view name) {
  for (const Record::Field& field : env)
    if (field.name == name) return field.value;
  return {};
}

// Records are data from outside: -1 for anything but a number in range.
double number_of(const Fields& env, std::string_view name) {
  const double value = number_in(value_of(env, name), -1);
  return value >= 0 && value <= 1e9 ? value : -1;
}

}  // namespace

Extent extent_of(const std::vector<CurrentRow>& rows, std::string_view searched) {
  Extent extent;
  bool seen = false, through = false;
  for (const CurrentRow& row : rows) {
    const std::string_view of = value_of(*row.env, "searched");
    if (!of.empty() && of != searched && of != kUntilEnded) continue;
    const double tried = number_of(*row.env, "tried"), planned = number_of(*row.env, "planned"),
                 budget_s = number_of(*row.env, "budget_s");
    if (tried < 0 || planned < 0 || budget_s < 0) {  // of a library that did not say: all there is
      through = true;
      continue;
    }
    through |= tried >= planned;
    if (seen && budget_s < extent.budget_s) continue;
    seen = true;
    extent.budget_s = budget_s;
    extent.tried = static_cast<int>(tried), extent.planned = static_cast<int>(planned);
  }
  extent.cut = seen && !through;
  return extent;
}

}  // namespace dlblas
