// Refuses an eps that makes no norm: below 0. Used by the normalisations of all families.
#pragma once

#include "core/error.hpp"
#include "core/schema.hpp"
#include "core/tensor.hpp"

namespace dlblas::norm {

/// kScalar: eps' place in the schema. NaN and infinity go into the results, unless kBounded.
template <int kScalar, bool kBounded = false>
void check_eps(const Args& args) {
  constexpr double kLargest = 1e30;  // no rate: of eps
  const double eps = args.scalars[kScalar].f;
  if (kBounded ? eps >= 0 && eps <= kLargest : !(eps < 0)) return;
  const std::string &op = args.schema->name, got = text(eps);
  const char* const expected = kBounded ? "0 … 1e30" : "0 or more";
  throw Error(ErrorKind::kArgument,
              text(op, ": eps is out of range; expected ", expected, ", got ", got),
              {.op = op, .argument = "eps", .expected = expected, .got = got});
}

}  // namespace dlblas::norm
