// Registers the operators with torch's dispatcher: a fragment of the library "dlblas", with kernels
// for the CPU and CUDA keys. These keys and no composite one: a sparse or quantized tensor must
// find no kernel, since reading it through the shims corrupts the heap.
// In: the registry, and which operators have a gradient. Out: the operations, defined in torch.
// Read next: bindings/torch/operation.hpp, python/dlblas/torch/_register.py (fakes, gradients).
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/torch/operation.hpp"

namespace dlblas::torch {

/// Defines the operations of the registry that are not defined yet. `differentiable`: operators
/// that get a private form `_x`. Returns the operations defined by this call; they live as long as
/// the process. Throws Error(kUnsupported), with the reason, if torch cannot be reached, and
/// Error(kInternal) if it refuses.
std::vector<const Operation*> register_operators(
    const std::vector<std::string_view>& differentiable);

}  // namespace dlblas::torch
