// What cross_entropy_rows and its gradient share: their options, and logits under a soft cap.
// Read next: cross_entropy_rows/cross_entropy_rows_program.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/seldom.hpp"

namespace dlblas::loss {

enum CrossEntropyOption : int { kSmooths, kCaps, kWeighted };
/// RowCall::f: 1 − ε, ε / C, the cap and its inverse. RowCall::n[0]: ignore_index.
enum CrossEntropyScalar : int { kKept, kShare, kCap, kInverseCap };

template <typename Values>
DLBLAS_ROW_SELDOM Values softly(Values x, float inverse, float cap) {
  return tanh(x * Values(inverse)) * Values(cap);
}

/// What logits become: cap · tanh(x / cap).
template <typename Values, typename Access>
DLBLAS_ROW Values capped(const Values& x, const Access& at) {
  return at.option(kCaps) ? softly(x, at.call.f[kInverseCap], at.call.f[kCap]) : x;
}

}  // namespace dlblas::loss
