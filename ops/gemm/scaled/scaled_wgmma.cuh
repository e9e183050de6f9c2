// The scaled products on Hopper's WGMMA: an epilogue program applies row and column scales and the
// bias; the main loop applies block scales. In: f32 sums. Out: one rounding.  Read next:
// device/gemm/wgmma_codes.cuh, device/gemm/wgmma_program.cuh.
#pragma once

#include "device/gemm/wgmma_codes.cuh"
#include "ops/gemm/scaled/scaled_gpu_config.hpp"

namespace dlblas::gemm::scaled {

/// One f32 for all rows or columns.
struct ScaledOne {
  uint32_t bits;
  template <class At>
  __device__ __forceinline__ void ask(const At& at, int place) {
    bits = ask_word(at.call.operands[place].data, true);
  }
  __device__ __forceinline__ float operator()(int, int, int) const { return float_from_bits(bits); }
};
struct ScaledNone {
  template <class At>
  __device__ __forceinline__ void ask(const At&, int) {}
  __device__ __forceinline__ float operator()(int, int, int) const { return 0; }
};
template <bool kEach, class Each>
struct ScaledChoice {
  using Type = Each;
};
template <class Each>
struct ScaledChoice<false, Each> {
  using Type = ScaledOne;
};
template <DType kBias, class At>
struct ScaledBias {
  using Type = typename At::template Column<kBias>;
};
template <class At>
struct ScaledBias<DType::kAbsent, At> {
  using Type = ScaledNone;
};

template <ScaledProgramTraits S, class At>
struct ScaledAsked {
  typename ScaledChoice<S.each_row, typename At::template Row<DType::kF32>>::Type row;
  typename ScaledChoice<S.each_column, typename At::template Column<DType::kF32>>::Type column;
  typename ScaledBias<S.bias, At>::Type bias;
};
template <ScaledProgramTraits S, class At>
requires(S.blocks&& S.bias != DType::kAbsent) struct ScaledAsked<S, At> {
  typename ScaledBias<S.bias, At>::Type bias;
};
template <ScaledProgramTraits S, class At>
requires(S.blocks&& S.bias == DType::kAbsent) struct ScaledAsked<S, At> {
};

template <ScaledProgramTraits S>
struct ScaledProgram : GemmProgram {
  static constexpr DType kOut = S.out;
  static constexpr bool kBlockScales = S.blocks;
  // Block scales take two operands each: see wgmma_codes.cuh.
  enum Operands { kAScale = 0, kBScale = 2, kBias = 4 };

  template <class At>
  using Asked = ScaledAsked<S, At>;
  template <class At>
  __device__ static __forceinline__ void ask(Asked<At>& asked, const At& at) {
    if constexpr (!S.blocks) asked.row.ask(at, kAScale), asked.column.ask(at, kBScale);
    if constexpr (S.bias != DType::kAbsent) asked.bias.ask(at, kBias);
  }
  template <class A>
  __device__ static __forceinline__ float value(const float (&sums)[kParts], const A& asked,
                                                const GemmWgmmaCall&, int h, int j, int e) {
    float x = sums[0];
    if constexpr (!S.blocks) x *= asked.row(h, j, e) * asked.column(h, j, e);
    if constexpr (S.bias != DType::kAbsent) x += asked.bias(h, j, e);
    return x;
  }
};

}  // namespace dlblas::gemm::scaled
