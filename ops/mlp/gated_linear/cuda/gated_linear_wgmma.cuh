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

/// The same values, but no strip's gates are computed before the previous strip is stored. ptxas
/// hoists gates above the barriers between strips, which spills where sums leave few registers; it
/// cannot hoist what depends on a volatile load.
template <GatedLinearTraits S>
struct GatedProgramInTurn : GatedProgram<S> {
  template <class At>
  struct Asked {
    float factor;  // of a sigmoid's exponent
  };
  template <class At>
  __device__ static __forceinline__ void ask(Asked<At>& a, const At& at) {
    a.factor = -kLog2E;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.lt.s32 p, %2, 0;\n\t@p ld.global.f32 %0, [%1];\n\t}"
                 : "+f"(a.factor)
                 : "l"(at.call.operands[0].data), "r"(at.call.m));  // m < 0: never
  }
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[2], const A& a,
                                                const GemmWgmmaCall&, int, int, int) {
    const float x = sums[0];
    const auto sigmoid = [&](float z) {
      return DeviceMath::reciprocal(1.0f + DeviceMath::exp2(z * a.factor));
    };
    if constexpr (S.gate == Gate::kSilu) return x * sigmoid(x) * sums[1];
    if constexpr (S.gate == Gate::kGeluTanh)
      return x * sigmoid(x * fmaf(kTanhB, x * x, kTanhA)) * sums[1];
    return gate_of<S.gate>(x) * sums[1];
  }
};

}  // namespace dlblas::mlp
