// What the parts of rms_norm_backward agree on: where its tensors stand, and how rows are divided.
// Read next: ops/norm/rms_norm_backward/rms_norm_backward.cpp.
#pragma once

#include <vector>

#include "core/implementation.hpp"

namespace dlblas::norm::backward {

/// Positions of the tensors in the schema.
enum Tensor : int { kDy, kX, kWeight, kDresidual, kDx, kDweight };
enum Result : int { kResultDx, kResultDweight };

/// Those that have rows.
inline constexpr Tensor kRowTensors[] = {kDy, kX, kDresidual, kDx};

inline bool has(const Problem& problem, Tensor tensor) {
  return problem.tensors[tensor].dtype != DType::kAbsent;
}
inline bool has_residual(const Problem& problem) { return has(problem, kDresidual); }

/// Terms of dweight that a kernel adds up in f32, one after the other, at most; it adds such sums
/// in f64. So the error of dweight does not grow with the batch. A part of the oracle's bound.
inline constexpr int kMaxRowsInF32 = 1024;

/// Defined in rms_norm_backward_cpu.cpp and rms_norm_backward_cuda.cpp; fastest first.
std::vector<Implementation> cpu();
std::vector<Implementation> cuda();

}  // namespace dlblas::norm::backward
