// Programs beside matmul's, on the WGMMA form: out = alpha[m] · beta[n] · sum + residual[m, n], and
// out = silu(a·b₀) · (a·b₁), in bf16. Driven by tests/cpp/test_gemm_programs.cpp.
#pragma once

#include "device/gemm/wgmma_mainloop.cuh"

namespace dlblas::test {

struct ScaledResidualProgram : GemmProgram {
  static constexpr DType kOut = DType::kBF16;
  enum Operands { kAlpha, kBeta, kResidual };

  template <class At>
  struct Asked {
    typename At::template Row<DType::kF32> alpha;
    typename At::template Column<DType::kF32> beta;
    typename At::template Element<DType::kBF16> residual;
  };
  template <class At>
  __device__ static __forceinline__ void ask(Asked<At>& asked, const At& at) {
    asked.alpha.ask(at, kAlpha), asked.beta.ask(at, kBeta), asked.residual.ask(at, kResidual);
  }
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[kParts], const A& asked,
                                                const GemmWgmmaCall&, int h, int j, int e) {
    return asked.alpha(h, j, e) * asked.beta(h, j, e) * sums[0] + asked.residual(h, j, e);
  }
};

struct GatedProgram : GemmProgram {
  static constexpr int kParts = 2;
  static constexpr DType kOut = DType::kBF16;

  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[kParts], const A&,
                                                const GemmWgmmaCall&, int, int, int) {
    return sums[0] / (1.0f + expf(-sums[0])) * sums[1];
  }
};

}  // namespace dlblas::test
