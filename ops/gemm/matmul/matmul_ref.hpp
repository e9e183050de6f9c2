// What matmul's oracles, the host's and the device's, share: how far an error of the sum reaches.
// Read next: ops/gemm/matmul/matmul_ref.cpp.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/gemm/matmul/matmul_config.hpp"
#include "registry/sum_error.hpp"

namespace dlblas::gemm {

/// How much an activation can stretch a difference: the largest |slope|, rounded up.
double lipschitz(Activation activation);

/// Errors of a sum of k products of a's dtype.
SumModel matmul_sum_model(DType dtype, std::int64_t k);

/// Roundings behind the sum, relative to what the activation gets.
double epilogue_roundings(Activation activation);

}  // namespace dlblas::gemm
