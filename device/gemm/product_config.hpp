// What host code and the GPU kernels of product programs share: traits (of the result and the
// operands) and the parameters of one call. In: plain values only; read by the host compiler and by
// NVRTC. Read next: product.cuh, product_wgmma.cuh, src/kernels/product.hpp.
#pragma once

#include "device/gemm/config.hpp"
#include "device/gemm/product.hpp"

namespace dlblas {

/// What the Problem fixes of a program's operands, beyond the product's own GemmTraits.
struct ProductTraits {
  DType out;
  bool out_vector;  // rows of the result are contiguous and 16-byte aligned
  bool aligned;     // every element is aligned to its size
  DType operands[kProductOperands];  // kAbsent: not given
  int32_t options[kProductOptions];
  ProductPairs pairs;
  bool folded = false;  // the WGMMA form takes columns of heads folded: see wgmma_config.hpp

  constexpr GemmOutTraits stored() const { return {out, out_vector, aligned}; }
  constexpr bool has(int place) const { return operands[place] != DType::kAbsent; }
};

/// One call; strides in elements.
struct ProductParams {
  GemmOut out;
  GemmOut operands[kProductOperands];
  int64_t numbers[kProductNumbers];
};

/// A program that runs after products whose sums are in memory: contiguous rows of f32.
struct ProductFinishParams {
  ProductParams epilogue;
  const float* sums[2];
  int64_t rows, columns;
};
inline constexpr int kProductFinishThreads = 256, kProductFinishColumns = 8;

}  // namespace dlblas
