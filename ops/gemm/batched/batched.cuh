// Selects a block's matrix of the batch. Read next: batched_mma.cuh, batched_fma.cuh.
#pragma once

#include "ops/gemm/batched/batched_config.hpp"
#include "ops/gemm/matmul/cuda/matmul_epilogue.cuh"

namespace dlblas::gemm {

/// Points the product at the block's matrix; false if there is none.
template <BatchedTraits S>
__device__ __forceinline__ bool enter_matrix(GemmParams<MatmulEpilogue<S.epilogue>>& product,
                                             const BatchedStrides& batch) {
  const int64_t i = blockIdx.z * kBatchedRow + blockIdx.y;
  if (i >= batch.matrices) return false;
  constexpr int kIn = size_of(S.gemm.type), kOut = size_of(S.epilogue.out);
  product.gemm.a = static_cast<const char*>(product.gemm.a) + i * batch.a * kIn;
  product.gemm.b[0] = static_cast<const char*>(product.gemm.b[0]) + i * batch.b * kIn;
  GemmOut& out = product.epilogue.out;
  out.data = static_cast<char*>(out.data) + i * batch.out * kOut;
  return true;
}

}  // namespace dlblas::gemm
