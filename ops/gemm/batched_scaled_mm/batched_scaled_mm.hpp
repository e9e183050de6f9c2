// batched_scaled_mm: out[b] = (a_scale · b_scale) · (a[b] · b[b]) + bias, codes of 8 bits with one
// scale for all of a and one for all of b. Its tensors are those of scaled_mm_channel, so each
// matrix of a batch is a problem, or a call, of that operator.
// Read next: batched_scaled_wgmma_cuda.cpp, batched_scaled_cuda.cpp, batched_scaled_each.cpp.
#pragma once

#include <cstdint>

#include "ops/gemm/batched/batched.hpp"
#include "ops/gemm/scaled/scaled.hpp"

namespace dlblas::gemm::scaled {

/// Matrix i as a call of scaled_mm_channel.
Args scaled_matrix_args(const Args& args, std::int64_t i);
/// Each matrix as a problem of scaled_mm_channel.
Problem scaled_matrix_problem(const Problem& problem);

/// One scaled_mm_channel call per matrix, inside the operator.
Implementation batched_scaled_each(DeviceType backend);
/// One launch for all matrices.
Implementation batched_scaled_mma();
Implementation batched_scaled_wgmma();

}  // namespace dlblas::gemm::scaled
