// The definitions of gated products and of their gradients, except their oracles.
// Read next: gated_ops.cpp, silu_and_mul/silu_and_mul.cpp.
#pragma once

#include "kernels/rows.hpp"

namespace dlblas::activation {

/// The bound of a result of `type`, for magnitudes in roundings of f32.
Bound rounded_once(DType type);

/// What each operator adds.
struct GatedOp {
  std::string_view name, schema, formula;
  double (*work_per_row)(const Problem& problem);
  std::int32_t registers = kernels::RowOp{}.registers;  // see RowOp
};
/// Schema, bound and row implementations of `name`(x) -> y, x = [gate | up], or x [*T, F].
OperatorDef gated(const GatedOp& op);
/// The same for `name`(dy, x) -> dx.
OperatorDef gated_backward(const GatedOp& op);

}  // namespace dlblas::activation
