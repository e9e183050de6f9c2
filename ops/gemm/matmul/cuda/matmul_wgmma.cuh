// matmul on Hopper's WGMMA: its epilogue as a program. In: f32 sums, the bias. Out: act(sum +
// bias[n]), rounded once.  Read next: device/gemm/wgmma_program.cuh,
// device/gemm/wgmma_mainloop.cuh.
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"
#include "ops/gemm/matmul/cuda/matmul_activate.cuh"
#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"

namespace dlblas::gemm {

template <MatmulEpilogueTraits S, class At>
struct MatmulAsked {
  typename At::template Column<S.bias> bias;
};
template <MatmulEpilogueTraits S, class At>
requires(!S.has_bias) struct MatmulAsked<S, At> {
};

template <MatmulEpilogueTraits S>
struct MatmulProgram : GemmProgram {
  static constexpr DType kOut = S.out;
  enum Operands { kBiasAt };

  template <class At>
  using Asked = MatmulAsked<S, At>;
  template <class At>
  __device__ static __forceinline__ void ask(Asked<At>& asked, const At& at) {
    if constexpr (S.has_bias) asked.bias.ask(at, kBiasAt);
  }
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[kParts], const A& asked,
                                                const GemmWgmmaCall&, int h, int j, int e) {
    float x = sums[0];
    if constexpr (S.has_bias) x += asked.bias(h, j, e);
    return activate<S.activation>(x);
  }
};

}  // namespace dlblas::gemm
