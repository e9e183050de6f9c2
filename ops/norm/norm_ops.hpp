// What the operators of the norm family that have a weight agree on: letters, scalars, and where a
// forward operator's tensors stand. Read next: ops/norm/rms_norm/rms_norm.cpp.
#pragma once

#include <array>

namespace dlblas::norm {

/// Letters and scalars, the same in all schemas; the operators assert the letters at registration.
enum Letter : int { kT, kC };
enum Scalar : int { kEps, kWeightOffset, kCastBeforeWeight };
enum KeyScalar : int { kKeyCastBeforeWeight };

/// Where a forward operator's tensors stand in its schema; -1 where it has none.
struct NormTensors {
  int x, weight, residual, y, residual_out;
  constexpr bool adds() const { return residual >= 0; }
  /// The tensors that have rows, x first; -1 where there is none.
  constexpr std::array<int, 4> rows() const { return {x, y, residual, residual_out}; }
};

}  // namespace dlblas::norm
