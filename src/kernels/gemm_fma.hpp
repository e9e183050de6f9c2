// Decisions that the operators' IEEE f32 products on GPUs share: how many terms are added before a
// sum is carried, which configurations fit, which one is the default, and how long the
// multiply-adds take. Read next: gemm_fma.cpp, device/gemm/fma_mainloop.cuh,
// ops/gemm/matmul/cuda/matmul_fma_cuda.cpp.
#pragma once

#include "core/config.hpp"
#include "core/implementation.hpp"
#include "device/gemm/config.hpp"

namespace dlblas::kernels {

/// M, N and K of the product.
struct GemmSize {
  std::int64_t m, n, k;
};

/// GemmTraits::span. With few sums, as exact as cuBLAS, which adds one row up as a tree. With many,
/// as exact as its products of 512 and more; with 16 bits and few terms, as its tensor cores, which
/// add up to 16 at once. H200, 22 November 2026.
std::int32_t gemm_fma_span(const Problem& problem, const GemmSize& size);

/// Keeps tiles that are not needlessly large, that threads divide, and that shared memory holds.
void constrain_gemm_fma(const Query& q, const GemmSize& size,
                        const ConfigTable<GemmFmaConfig>& table, Space& space);

/// Seconds of the multiply-adds, or of a lone block's loads where those take longer.
double gemm_fma_seconds(const DeviceInfo& device, const GemmSize& size, const GemmFmaConfig& c);

/// The default: the one with the smallest `milliseconds` of those that fit.
GemmFmaConfig gemm_fma_preset(const Query& q, const GemmSize& size,
                              const ConfigTable<GemmFmaConfig>& table,
                              double (*milliseconds)(const Query&, const GemmFmaConfig&));

}  // namespace dlblas::kernels
