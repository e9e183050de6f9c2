// Shared by the definitions of layer norms: their scalars, options and bounds, by the positions of
// tensors and arguments. Read next: ops/norm/layernorm_gated_rows/layernorm_gated_rows.cpp.
#pragma once

#include "kernels/rows.hpp"
#include "ops/common/check_eps.hpp"
#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

/// For rows as wide as the letter kWidth.
template <int kEpsilon, int kWidth>
void fill_layer_norm_row(const Args& args, RowCall& call) {
  fill_layer_norm(args.scalars[kEpsilon].f, args.letters[kWidth], call);
}

/// Refuses an eps below 0, and rows of which kernels cannot say the phase, t % groups: x's last
/// leading dimension longer than 1 is a multiple of groups, or the only one.
template <int kEpsilon, int kGroups>
void check_phases(const Args& args) {
  check_eps<kEpsilon>(args);
  const std::int64_t groups = args.letters[kGroups];
  const TensorView& x = args.tensors[0];
  int dim = x.rank - 2;
  while (dim > 0 && x.shape[dim] == 1) --dim;
  const std::int64_t size = dim < 0 ? 1 : x.shape[dim];
  if (groups > 0 && (dim < 0 || size % groups == 0 || size == args.letters[0])) return;
  const std::string &op = args.schema->name, got = text(groups);
  const std::string expected =
      groups > 0 ? text("a divisor of ", size, ", of x's dimension ", dim) : "1 or more";
  throw Error(groups > 0 ? ErrorKind::kShape : ErrorKind::kArgument,
              text(op, ": groups does not fit x's rows; expected ", expected, ", got ", got),
              {.op = op, .argument = "groups", .expected = expected, .got = got});
}

/// Options 0 and 1: is there a weight, a bias? kBias −1: the operator has none.
template <int kWeight, int kBias>
void choose_layer_norm(const Problem& problem, std::int32_t* options) {
  options[0] = problem.tensors[kWeight].dtype != DType::kAbsent;
  if constexpr (kBias >= 0) options[1] = problem.tensors[kBias].dtype != DType::kAbsent;
}

/// kWork operations per element.
template <int kWork, int kWidth>
double work_of_row(const Problem& problem) {
  return static_cast<double>(kWork) * static_cast<double>(problem.dims[kWidth]);
}

/// The bound of a gradient's results, of which kDx is the first: results over columns are rounded
/// from f64; an f32 result of rows has no rounding beyond its last product's.
template <int kDx>
Bound bound_of_gradient(const Problem& problem, int result) {
  const DType dtype = problem.tensors[kDx + result].dtype;
  const FloatTraits out = float_traits(dtype);
  return Bound{.magnitude = kRounding * (1 + out.eps),
               .value = result == 0 && dtype == DType::kF32 ? 0 : out.eps / 2,
               .absolute = out.tiny};
}

/// The bound of a result of kLike's dtype that is rounded after its last operation, in f32 too.
template <int kLike>
Bound bound_behind(const Problem& problem, int) {
  const FloatTraits out = float_traits(problem.tensors[kLike].dtype);
  return {.magnitude = kRounding * (1 + out.eps), .value = out.eps / 2, .absolute = out.tiny};
}

}  // namespace dlblas::norm
