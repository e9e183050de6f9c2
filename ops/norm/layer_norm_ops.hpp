// Shared by the definitions of layer norms: their scalars, options and bounds, by the positions of
// tensors and arguments. Read next: ops/norm/layernorm_gated_rows/layernorm_gated_rows.cpp.
#pragma once

#include "kernels/rows.hpp"
#include "ops/check_eps.hpp"
#include "ops/norm/layer_norm_moments.hpp"

namespace dlblas::norm {

/// For rows as wide as the letter kWidth.
template <int kEpsilon, int kWidth>
void fill_layer_norm_row(const Args& args, RowCall& call) {
  fill_layer_norm(args.scalars[kEpsilon].f, args.letters[kWidth], call);
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

/// The bound of a result of kLike's dtype that is rounded after its last operation, in f32 too.
template <int kLike>
Bound bound_behind(const Problem& problem, int) {
  const FloatTraits out = float_traits(problem.tensors[kLike].dtype);
  return {.magnitude = kRounding * (1 + out.eps), .value = out.eps / 2, .absolute = out.tiny};
}

}  // namespace dlblas::norm
