// What cross_entropy_rows and its gradient share: their options, and logits under a soft cap.
// Read next: cross_entropy_rows/cross_entropy_rows_program.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/common/seldom.hpp"

namespace dlblas::loss {

enum CrossEntropyOption : int { kSmooths, kCaps, kWeighted, kHasDlse };
/// RowCall::f: 1 − ε, ε / C, the cap and its inverse. RowCall::n[0]: ignore_index.
enum CrossEntropyScalar : int { kKept, kShare, kCap, kInverseCap };

template <typename Values>
DLBLAS_ROW_SELDOM Values softly(Values x, float inverse, float cap) {
  return tanh(x * Values(inverse)) * Values(cap);
}

/// Logits under the cap: cap · tanh(x / cap).
template <typename Values, typename Access>
DLBLAS_ROW Values capped(const Values& x, const Access& at) {
  return at.option(kCaps) ? softly(x, at.call.f[kInverseCap], at.call.f[kCap]) : x;
}

DLBLAS_ROW bool is_class(int64_t target, const RowCall& call) {
  return target >= 0 && target < call.width;
}
/// The weight of a row's target; NaN if there is no such class.
template <typename Row, int kIndex>
DLBLAS_ROW float weight_of(const Row& row, Operand<kIndex> weight, int64_t target) {
  if (!is_class(target, row.call)) return __builtin_bit_cast(float, 0x7fc00000u);
  return row.option(kWeighted) ? row.load_element(weight, target) : 1.0f;
}
/// The weights of all classes, which smoothing needs: those of one access, and below their sum.
template <typename Access, int kIndex>
DLBLAS_ROW auto load_weights(const Access& at, Operand<kIndex> weight) {
  return at.option(kSmooths) && at.option(kWeighted) ? at.load_column(weight) : at.zeros(weight);
}
template <typename Row, int kIndex>
DLBLAS_ROW float load_weight_sum(const Row& row, Operand<kIndex> sum) {
  return row.load_scalar(sum, static_cast<float>(row.call.width));
}

}  // namespace dlblas::loss
