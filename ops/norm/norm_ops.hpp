// The positions of the tensors of a forward operator with a weight. Read next:
// ops/norm/rms_norm/rms_norm.cpp.
#pragma once

#include <array>

#include "ops/norm/norm_letters.hpp"

namespace dlblas::norm {

/// Positions of a forward operator's tensors in its schema; -1: absent.
struct NormTensors {
  int x, weight, residual, y, residual_out;
  constexpr bool adds() const { return residual >= 0; }
  /// The tensors that have rows, x first; -1: absent.
  constexpr std::array<int, 4> rows() const { return {x, y, residual, residual_out}; }
};

}  // namespace dlblas::norm
