// Where the tensors of a forward operator that has a weight stand. Read next:
// ops/norm/rms_norm/rms_norm.cpp.
#pragma once

#include <array>

#include "ops/norm/norm_letters.hpp"

namespace dlblas::norm {

/// Where a forward operator's tensors stand in its schema; -1 where it has none.
struct NormTensors {
  int x, weight, residual, y, residual_out;
  constexpr bool adds() const { return residual >= 0; }
  /// The tensors that have rows, x first; -1 where there is none.
  constexpr std::array<int, 4> rows() const { return {x, y, residual, residual_out}; }
};

}  // namespace dlblas::norm
