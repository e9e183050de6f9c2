// merge_attention_states: merges two attention states over disjoint keys into one over all of them.
// A row is one head of a token; every access recomputes its two weights, in f32.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::attention {

template <typename Target>
struct MergeAttentionStates : RowProgram {
  static constexpr Operand<0> kO1{};
  static constexpr Operand<1> kLse1{};
  static constexpr Operand<2> kO2{};
  static constexpr Operand<3> kLse2{};
  static constexpr Operand<4> kO{};
  static constexpr Operand<5> kLse{};
  static constexpr bool kHasRowResults = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kO1> o1;
    RowWords<Target, kO2> o2;
    float lse1, lse2;
  };
  using Kept = Loaded;

  /// e^(lse − most) of both states; 0 below f32's smallest normal number.
  struct Powers {
    float most, first, second;
    DLBLAS_ROW float power(float lse, float base) {
      const float e = Math::exp(lse - base);
      return e < 0x1p-126f ? 0 : e;
    }
    DLBLAS_ROW Powers of(float lse1, float lse2) {
      const float most = Math::max(lse1, lse2);
      const float base = most < -0x1.fffffep127f ? 0 : most;  // −inf − −inf is NaN
      return {most, power(lse1, base), power(lse2, base)};
    }
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.o1 = at.load(kO1), in.o2 = at.load(kO2);
    in.lse1 = at.load_value(kLse1), in.lse2 = at.load_value(kLse2);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  /// A state of weight 0 contributes nothing, whatever it holds.
  template <typename Words>
  DLBLAS_ROW Values part(const Words& o, float weight) {
    if (weight == 0) return Values(0.0f);
    return values(o) * Values(weight);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    const Powers powers = Powers::of(kept.lse1, kept.lse2);
    const float sum = powers.first + powers.second;
    const float inverse = sum == 0 ? 0 : Math::reciprocal(sum);
    at.store(kO, part(kept.o1, powers.first * inverse) + part(kept.o2, powers.second * inverse));
  }
  template <typename Row>
  DLBLAS_ROW void store_row(const Stats&, const Row& row) {
    const Powers powers = Powers::of(row.load_value(kLse1), row.load_value(kLse2));
    const float sum = powers.first + powers.second;
    row.store_value(kLse, sum == 0 ? powers.most : powers.most + Math::log(sum));
  }
};

}  // namespace dlblas::attention
