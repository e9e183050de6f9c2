// What matmul's oracles, the host's and the device's, share: how far an error of the sum reaches.
// Read next: ops/gemm/matmul_ref.cpp.
#pragma once

#include <cstdint>

#include "ops/gemm/matmul_config.hpp"

namespace dlblas::gemm {

/// How much an activation can stretch a difference: the largest |slope|, rounded up.
double lipschitz(Activation activation);

/// What a product with a subnormal operand adds to the magnitude, so that the bound allows its
/// loss.
double subnormal_weight(std::int64_t k, Activation activation);

}  // namespace dlblas::gemm
