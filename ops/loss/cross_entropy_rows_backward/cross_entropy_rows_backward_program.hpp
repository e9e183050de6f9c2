// cross_entropy_rows' gradient for the logits: with p = e^(x − lse) and t the row's target,
// dx = p·(g·((1 − ε)·w_t + ε/C·Σw) + dlse) − g·ε/C·w − [c = t]·g·(1 − ε)·w_t; under a soft cap
// times 1 − tanh². One read, one write; parts of a row are independent. Compiled by NVRTC and, per
// instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/loss/cross_entropy.hpp"

namespace dlblas::loss {

template <typename Target>
struct CrossEntropyRowsBackward : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kDx{};
  static constexpr Operand<2> kDloss{};
  static constexpr Operand<3> kLse{};
  static constexpr Operand<4> kDlse{};
  static constexpr Operand<5> kTarget{};
  static constexpr Operand<6> kWeight{};
  static constexpr Operand<7> kWeightSum{};
  static constexpr bool kSeldomF16 = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> x;
    RowWords<Target, kWeight> weight;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.x = at.load(kX);
    in.weight = load_weights(at, kWeight);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    const RowCall& call = at.call;
    const int64_t target = at.number();
    const bool ignored = target == call.n[0];
    const float dlse = at.option(kHasDlse) ? at.load_value(kDlse) : 0.0f;
    // The logits of an ignored row may be NaN or infinite: nothing is multiplied by 0.
    if (ignored && dlse == 0) return at.store(kDx, Values(0.0f));
    float factor = dlse, taken = 0, shared = 0;
    if (!ignored) {
      const float g = at.load_value(kDloss);
      taken = g * call.f[kKept] * weight_of(at.row, kWeight, target), factor += taken;
      if (at.option(kSmooths)) {
        shared = g * call.f[kShare];
        factor += shared * load_weight_sum(at.row, kWeightSum);
      }
    }
    const Values x = capped(values(kept.x), at);
    Values d = exp(x - Values(at.load_value(kLse))) * Values(factor);
    if (at.option(kSmooths))
      d = d - (at.option(kWeighted) ? values(kept.weight) * Values(shared) : Values(shared));
    if (!ignored && target >= at.column() && target < at.column() + Target::kElements)
      d = at.select_before(target, d, at.select_before(target + 1, d - Values(taken), d));
    if (at.option(kCaps)) {
      const Values t = x * Values(call.f[kInverseCap]);
      d = d * (Values(1.0f) - t * t);
    }
    at.store(kDx, d);
  }
};

}  // namespace dlblas::loss
