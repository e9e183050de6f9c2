// gated_linear on Hopper's WGMMA: its epilogue as a program of two parts, side by side in a tile.
// Read next: device/gemm/wgmma_program.cuh, device/gemm/wgmma_mainloop.cuh.
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"
#include "ops/mlp/gate.cuh"
#include "ops/mlp/gated_linear/cuda/gated_linear_gpu_config.hpp"

namespace dlblas::mlp {

template <GatedLinearTraits S>
struct GatedProgram : GemmProgram {
  static constexpr int kParts = 2;
  static constexpr DType kOut = S.out;

  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[kParts], const A&,
                                                const GemmWgmmaCall&, int, int, int) {
    return gate_of<S.gate>(sums[0]) * sums[1];
  }
};

}  // namespace dlblas::mlp
