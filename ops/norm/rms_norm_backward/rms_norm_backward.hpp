// Shared by the parts of rms_norm_backward: the positions of its tensors, and its implementations.
// Read next: ops/norm/rms_norm_backward/rms_norm_backward.cpp.
#pragma once

#include <vector>

#include "core/implementation.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_ref.hpp"

namespace dlblas::norm::backward {

/// The tensors that have rows.
inline constexpr Tensor kRowTensors[] = {kDy, kX, kDresidual, kDx};

inline bool has(const Problem& problem, Tensor tensor) {
  return problem.tensors[tensor].dtype != DType::kAbsent;
}
inline bool has_residual(const Problem& problem) { return has(problem, kDresidual); }

/// Defined in rms_norm_backward_cpu.cpp and rms_norm_backward_cuda.cpp; fastest first.
std::vector<Implementation> cpu();
std::vector<Implementation> cuda();

}  // namespace dlblas::norm::backward
