// What the host code and the GPU kernels of gated_linear share besides the products themselves
// (device/gemm/config.hpp). In: nothing but plain values; read by the host compiler and by NVRTC.
// Read next: gated_linear_epilogue.cuh.
#pragma once

#include "device/gemm/config.hpp"
#include "ops/mlp/gate.hpp"

namespace dlblas::mlp {

/// What the Problem fixes of gate(sum) · sum.
struct GatedLinearTraits {
  DType out;
  bool out_vector;  // rows of y are contiguous and 16-byte aligned
  bool aligned;     // every element is aligned to its size
  Gate gate;

  constexpr GemmOutTraits stored() const { return {out, out_vector, aligned}; }
};

/// One call. `sums`: the first product in f32, [m, n], for forms that run one after the other.
struct GatedLinearParams {
  GemmOut y;
  float* sums;
  int64_t columns;
};

/// y = gate(sums[0]) · sums[1], elementwise: the epilogue of two f32 products.
struct GatedFinishParams {
  GemmOut y;
  const float* sums[2];  // [rows, columns] each
  int64_t rows, columns;
};
inline constexpr int kFinishThreads = 256, kFinishColumns = 8;

}  // namespace dlblas::mlp
