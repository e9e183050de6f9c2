// What the host code and the GPU kernels of matmul share besides the product itself
// (device/gemm/config.hpp): the epilogue's traits (from the Problem) and parameters (of one call).
// In: nothing but plain values; read by the host compiler and by NVRTC.
// Flow: [compile] writes traits as template values, [launch] the parameters.
// Read next: matmul_epilogue.cuh.
#pragma once

#include "device/gemm/config.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

/// What the Problem fixes of act(sum + bias).
struct MatmulEpilogueTraits {
  DType out;
  bool out_vector;  // rows of out are contiguous and 16-byte aligned
  bool aligned;     // every element is aligned to its size
  bool has_bias;
  DType bias;
  Activation activation;

  constexpr GemmOutTraits stored() const { return {out, out_vector, aligned}; }
};

/// One call: out[m, n] = act(sum + bias[n]).
struct MatmulEpilogueParams {
  GemmOut out;
  const void* bias;
  int64_t bias_col;  // elements
};

}  // namespace dlblas::gemm
