// The gradient of partial_rotary_heads in k_pe: adds the keys' last channels over heads, in f32 and
// in order, then rotates the sum back.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/rope/style.hpp"

namespace dlblas::rope {

template <typename Target>
struct PartialRotaryHeadsSum : RowProgram {
  static constexpr Operand<0> kDk{};
  static constexpr Operand<1> kDpe{};
  static constexpr Operand<2> kCos{};
  static constexpr Operand<3> kSin{};
  enum Options : int { kPairs, kHalves };
  enum Counts : int { kHeads };  // RowCall::n
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    Values low, high;
    RowWords<Target, kCos> cos_low, cos_high;
    RowWords<Target, kSin> sin_low, sin_high;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    const int pairs = at.option(kPairs), heads = static_cast<int>(at.call.n[kHeads]);
    const int halves = at.option(kHalves);
    in.cos_low = at.load(kCos), in.sin_low = at.load(kSin);
    in.cos_high = halves & kHalfCos ? in.cos_low : at.load(kCos, pairs);
    in.sin_high = halves & kHalfSin ? in.sin_low : at.load(kSin, pairs);
    in.low = in.high = Values(0.0f);
    for (int head = 0; head < heads; ++head) {
      in.low = in.low + values(at.load_layer(kDk, head));
      in.high = in.high + values(at.load_layer(kDk, head, pairs));
    }
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store_pairs(kDpe, kept.low * values(kept.cos_low) + kept.high * values(kept.sin_high),
                   kept.high * values(kept.cos_high) - kept.low * values(kept.sin_low));
  }
};

}  // namespace dlblas::rope
