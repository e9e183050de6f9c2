// The gradient of layernorm_gated_rows on rows. With v = x·silu(z) for a gate before the norm, else
// x; n = (v − mean)·r, for an rms_norm v·r; and h = dy·silu(z) for a gate behind the norm, else dy:
//   g = h·weight, dv = r·(g − mean_C(g) − n·mean_C(g·n)), an rms_norm without mean_C(g);
//   gate before: dx = dv·silu(z), dz = dv·x·silu′(z); behind: dx = dv, dz = dy·(n·weight +
//   bias)·silu′(z); without a gate dz = 0;
//   over the rows of a phase, dweight = Σ h·n and dbias = Σ h; 0 where there is none.
// Mean and r come from the first two stages of the forward program. In f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/common/silu_gate.hpp"
#include "ops/norm/layernorm_gated_backward/layernorm_gated_backward_folded.hpp"
#include "ops/norm/layernorm_gated_rows/layernorm_gated_rows_program.hpp"

namespace dlblas::norm {

/// Operands 0 to 2 and 4, x, weight, bias and z, are those of layernorm_gated_rows.
template <typename Target>
struct LayernormGatedBackward : LayernormGatedRows<Target> {
  using Forward = LayernormGatedRows<Target>;
  using Norm = typename Forward::Forward;
  using FoldedForm = LayernormGatedFolded<LayernormGatedBackward, Target>;
  using typename Forward::Access, typename Norm::Columns, typename Forward::Sums,
      typename Forward::Values;
  static constexpr Operand<3> kDy{};
  static constexpr Operand<5> kDx{};
  static constexpr Operand<6> kDz{};
  static constexpr int kScopes[] = {kRowScope, kRowScope, kRowScope};
  static constexpr int kStages = 3, kColumnsStage = 2;
  static constexpr bool kHasColumns = true;
  static constexpr int kFolds = 2;  // dweight, dbias

  struct Loaded : Forward::Loaded {
    RowWords<Target, kDy> dy;
  };
  struct Kept {
    Values v;
    RowWords<Target, Norm::kX> x;
    RowWords<Target, Forward::kZ> z;
    RowWords<Target, kDy> dy;
  };
  struct Stats : Forward::Stats {
    float gradient, product;  // means over the row of g and of g·n
  };

  using Forward::needs;
  DLBLAS_ROW constexpr bool needs(Stage<2>, const int32_t*) { return true; }

  /// Of the bias only a gate behind the norm needs to know.
  DLBLAS_ROW_SELDOM void load_columns(Columns& columns, const Access& at) {
    const bool biased = at.option(kGate) == kGateBehind && at.option(Norm::kHasBias);
    columns.weight =
        at.option(Norm::kHasWeight) ? at.load_column(Norm::kWeight) : at.zeros(Norm::kWeight);
    columns.bias = biased ? at.load_column(Norm::kBias) : at.zeros(Norm::kBias);
  }
  DLBLAS_ROW_SELDOM void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    Forward::load(in, at);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access& at) {
    kept.v = values(in.x);
    if (at.option(kGate) == kGateBefore) kept.v = Forward::gated(kept.v, values(in.z));
    kept.x = in.x, kept.z = in.z, kept.dy = in.dy;
  }

  DLBLAS_ROW Values normed(const Kept& kept, const Stats& stats, const Access& at) {
    return at.option(kRms) ? kept.v * Values(stats.factor) : Norm::normed(kept.v, stats);
  }
  /// What store and folds share: n; h, the gradient of n·weight + bias; where there is a gate,
  /// silu(z) and what dz is, but for dv or n·weight + bias: x or dy, times silu′(z).
  struct Ready {
    Values n, h, gate, slope;
  };
  DLBLAS_ROW_SELDOM Ready ready(const Kept& kept, const Columns&, const Stats& stats,
                                const Access& at, const RowUnpack& unpack) {
    const Values n = normed(kept, stats, at), dy = values(kept.dy, unpack);
    if (!at.option(kGate)) return {n, dy, dy, dy};
    const Values z = values(kept.z, unpack), share = sigmoid(z), gate = z * share;
    const Values slope = activation::SiluGate::slope_of(share, gate);
    if (at.option(kGate) == kGateBehind) return {n, dy * gate, gate, dy * slope};
    return {n, dy, gate, values(kept.x, unpack) * slope};
  }
  DLBLAS_ROW Values weighted(const Values& h, const Columns& columns, const Access& at) {
    return at.option(Norm::kHasWeight) ? h * values(columns.weight) : h;
  }

  DLBLAS_ROW void accumulate(Stage<0>, typename Forward::Sum& sum, const Kept& kept, const Columns&,
                             const Stats&, const Access&) {
    sum.add(kept.v);
  }
  DLBLAS_ROW void accumulate(Stage<1>, Sums& sums, const Kept& kept, const Columns&,
                             const Stats& stats, const Access& at) {
    const Values d = at.option(kRms) ? kept.v * Values(at.call.f[Norm::kScale])
                                     : Norm::difference(kept.v, stats, at.call);
    sums.add(d, d);
  }
  using Forward::finalize, Forward::partial;
  DLBLAS_ROW Sums partial(Stage<2>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<2>, Sums& sums, const Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    const Ready made = ready(kept, columns, stats, at, at.unpack(Stage<2>{}));
    sums.add(weighted(made.h, columns, at), made.n);
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<2>, Stats& stats, const Total& total, const RowCall& call) {
    stats.gradient = call.options[kRms] ? 0 : static_cast<float>(Norm::mean_of(total.sum, call));
    stats.product = static_cast<float>(Norm::mean_of(total.products, call));
  }

  DLBLAS_ROW_SELDOM void store(const Ready& made, const Columns& columns, const Stats& stats,
                               const Access& at) {
    const Values g = weighted(made.h, columns, at);
    const Values centred = at.option(kRms) ? g : g - Values(stats.gradient);
    write(fma(made.n, Values(-stats.product), centred) * Values(stats.factor), made, columns, at);
  }
  DLBLAS_ROW Values fold(Fold<0>, const Ready& made, const Columns&, const Stats&,
                         const Access& at) {
    return at.option(Norm::kHasWeight) ? made.h * made.n : none();
  }
  DLBLAS_ROW Values fold(Fold<1>, const Ready& made, const Columns&, const Stats&,
                         const Access& at) {
    return at.option(Norm::kHasBias) ? made.h : none();
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    store(ready(kept, columns, stats, at, at.unpack(Stage<3>{})), columns, stats, at);
  }
  template <int kFold>
  DLBLAS_ROW Values fold(Fold<kFold> which, const Kept& kept, const Columns& columns,
                         const Stats& stats, const Access& at) {
    return fold(which, ready(kept, columns, stats, at, at.unpack(Stage<3>{})), columns, stats, at);
  }
  /// A term of what the call does not have: −0, which a compiler need not add.
  DLBLAS_ROW Values none() { return Values(-0.0f); }

  /// Stores dx and dz, from dv.
  DLBLAS_ROW void write(const Values& dv, const Ready& made, const Columns& columns,
                        const Access& at) {
    Values dx = dv, dz = Values(0.0f);
    if (at.option(kGate) == kGateBefore) {
      dx = dv * made.gate, dz = dv * made.slope;
    } else if (at.option(kGate)) {
      Values y = weighted(made.n, columns, at);
      if (at.option(Norm::kHasBias)) y = y + values(columns.bias);
      dz = y * made.slope;
    }
    at.store(kDx, dx);
    at.store(kDz, dz);
  }
};

}  // namespace dlblas::norm
