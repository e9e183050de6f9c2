// What the host and the CUDA kernel of lora_shrink and lora_expand share. Read next: lora.cuh.
#pragma once

#include "device/types.hpp"

namespace dlblas::gemm {

struct LoraTraits {
  DType x, weight, y, adapter;
  int32_t access;  // elements of x and of a row of weight that a lane reads at a time
  int32_t lanes;   // of a warp that share an element of y
  bool aligned, aligned_adapter;  // to their sizes
};
struct LoraParams {
  const void* x;
  const void* weight;
  const void* adapter;
  void* y;
  int64_t x_row, x_col, weight_adapter, weight_row, weight_col, adapter_stride, y_row, y_col;
  int64_t width, depth;
  int32_t adapters;
  float scale;
};
inline constexpr int kLoraThreads = 256;

}  // namespace dlblas::gemm
