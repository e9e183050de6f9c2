// The gradient of group_norm_rows on rows. With n = (x − mean)·r, u = n·weight + bias, h =
// dy·silu′(u) with the activation, else dy, and g = h·weight:
// dx = r·(g − mean_C(g) − n·mean_C(g·n)); over the rows of a phase and the columns of a group,
// dweight = Σ h·n and dbias = Σ h; 0 where there is none.
// Mean and r come from layer_norm's own first two stages. In f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/common/seldom.hpp"
#include "ops/common/silu_gate.hpp"
#include "ops/norm/group_norm_grouped.hpp"
#include "ops/norm/layer_norm/layer_norm_program.hpp"

namespace dlblas::norm {

/// Operands 0 to 2, x, weight and bias, are those of layer_norm.
template <typename Target>
struct GroupNormBackward : LayerNorm<Target> {
  using Forward = LayerNorm<Target>;
  using GroupedForm = GroupNormGrouped<GroupNormBackward, Target>;
  using typename Forward::Access, typename Forward::Sums, typename Forward::Values;
  static constexpr Operand<3> kDy{};
  static constexpr Operand<4> kDx{};
  static constexpr int kSilu = 2;  // an option
  static constexpr int kScopes[] = {kRowScope, kRowScope, kRowScope};
  static constexpr int kStages = 3, kColumnsStage = 2;
  static constexpr int kFolds = 2;  // dweight, dbias
  static constexpr bool kBlocksApart = false;

  struct Loaded : Forward::Loaded {
    RowWords<Target, kDy> dy;
  };
  struct Kept {
    RowWords<Target, Forward::kX> x;
    RowWords<Target, kDy> dy;
  };
  struct Columns {
    Values weight, bias;  // of the access's groups
  };
  struct Stats : Forward::Stats {
    float gradient, product;  // means over the row of g and of g·n
  };

  DLBLAS_ROW_SELDOM void load_columns(Columns& columns, const Access& at) {
    const bool biased = at.option(kSilu) && at.option(Forward::kHasBias);
    columns.weight =
        at.option(Forward::kHasWeight) ? at.load_group(Forward::kWeight) : Values(1.0f);
    columns.bias = biased ? at.load_group(Forward::kBias) : Values(0.0f);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    in.x = at.load(Forward::kX);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) {
    kept.x = in.x, kept.dy = in.dy;
  }

  DLBLAS_ROW Values normed(const Kept& kept, const Stats& stats, const RowUnpack& unpack) {
    return Forward::normed(values(kept.x, unpack), stats);
  }
  /// n, and h, the gradient of u.
  struct Ready {
    Values n, h;
  };
  DLBLAS_ROW_SELDOM Ready ready(const Kept& kept, const Columns& columns, const Stats& stats,
                                const Access& at, const RowUnpack& unpack) {
    Ready made = {normed(kept, stats, unpack), values(kept.dy, unpack)};
    if (!at.option(kSilu)) return made;
    const Values u = fma(made.n, columns.weight, columns.bias), s = sigmoid(u);
    made.h = made.h * activation::SiluGate::slope_of(s, u * s);
    return made;
  }
  DLBLAS_ROW Values weighted(const Values& h, const Columns& columns, const Access& at) {
    return at.option(Forward::kHasWeight) ? h * columns.weight : h;
  }

  DLBLAS_ROW void accumulate(Stage<0>, typename Forward::Sum& sum, const Kept& kept, const Columns&,
                             const Stats&, const Access&) {
    sum.add(values(kept.x));
  }
  DLBLAS_ROW void accumulate(Stage<1>, Sums& sums, const Kept& kept, const Columns&,
                             const Stats& stats, const Access& at) {
    const Values x = values(kept.x, at.unpack(Stage<1>{}));
    const Values d = Forward::difference(x, stats, at.call);
    sums.add(d, d);
  }
  using Forward::finalize, Forward::partial;
  DLBLAS_ROW Sums partial(Stage<2>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<2>, Sums& sums, Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    const Ready made = ready(kept, columns, stats, at, at.unpack(Stage<2>{}));
    sums.add(weighted(made.h, columns, at), made.n);
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<2>, Stats& stats, const Total& total, const RowCall& call) {
    stats.gradient = static_cast<float>(Forward::mean_of(total.sum, call));
    stats.product = static_cast<float>(Forward::mean_of(total.products, call));
  }

  DLBLAS_ROW void store(const Ready& made, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const Values centred = weighted(made.h, columns, at) - Values(stats.gradient);
    at.store(kDx, fma(made.n, Values(-stats.product), centred) * Values(stats.factor));
  }
  /// A term of what the call does not have is −0, which a compiler need not add.
  DLBLAS_ROW Values fold(Fold<0>, const Ready& made, const Columns&, const Stats&,
                         const Access& at) {
    return at.option(Forward::kHasWeight) ? made.h * made.n : Values(-0.0f);
  }
  DLBLAS_ROW Values fold(Fold<1>, const Ready& made, const Columns&, const Stats&,
                         const Access& at) {
    return at.option(Forward::kHasBias) ? made.h : Values(-0.0f);
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
};

}  // namespace dlblas::norm
