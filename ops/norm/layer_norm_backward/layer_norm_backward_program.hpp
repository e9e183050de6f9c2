// The gradient of layer_norm on rows. With x̂ = (x − mean)·r and g = dy·weight:
// dx = r·(g − mean_C(g) − x̂·mean_C(g·x̂)); over all rows, dweight = Σ dy·x̂ and dbias = Σ dy.
// Mean and r come from layer_norm's own first two stages. In f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/layer_norm/layer_norm_program.hpp"
#include "ops/norm/layer_norm_folded.hpp"

namespace dlblas::norm {

/// Operands 0 and 1, x and weight, are those of layer_norm; there is no bias here.
template <typename Target>
struct LayerNormBackward : LayerNorm<Target> {
  using Forward = LayerNorm<Target>;
  using FoldedForm = LayerNormFolded<LayerNormBackward, Target>;
  using typename Forward::Access, typename Forward::Columns, typename Forward::Sums,
      typename Forward::Values;
  static constexpr Operand<2> kDy{};
  static constexpr Operand<3> kDx{};
  static constexpr int kScopes[] = {kRowScope, kRowScope, kRowScope};
  static constexpr int kStages = 3, kColumnsStage = 2;
  static constexpr int kFolds = 2;  // dweight, dbias

  struct Loaded : Forward::Loaded {
    RowWords<Target, kDy> dy;
  };
  using Kept = Loaded;
  struct Stats : Forward::Stats {
    float gradient, product;  // means over the row of g and of g·x̂
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.weight = at.option(Forward::kHasWeight) ? at.load_column(Forward::kWeight)
                                                    : at.zeros(Forward::kWeight);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.dy = at.load(kDy);
    in.x = at.load(Forward::kX);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  DLBLAS_ROW Values normed(const Kept& kept, const Stats& stats, const RowUnpack& unpack) {
    return Forward::normed(values(kept.x, unpack), stats);
  }
  DLBLAS_ROW Values gradient(const Kept& kept, const Columns& columns, const Access& at,
                             const RowUnpack& unpack) {
    const Values dy = values(kept.dy, unpack);
    return at.option(Forward::kHasWeight) ? dy * values(columns.weight) : dy;
  }

  using Forward::accumulate, Forward::finalize, Forward::partial;
  DLBLAS_ROW Sums partial(Stage<2>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<2>, Sums& sums, const Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<2>{});
    sums.add(gradient(kept, columns, at, unpack), normed(kept, stats, unpack));
  }
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<2>, Stats& stats, const Total& total, const RowCall& call) {
    stats.gradient = static_cast<float>(Forward::mean_of(total.sum, call));
    stats.product = static_cast<float>(Forward::mean_of(total.products, call));
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<3>{});
    const Values centred = gradient(kept, columns, at, unpack) - Values(stats.gradient);
    at.store(kDx, fma(normed(kept, stats, unpack), Values(-stats.product), centred) *
                      Values(stats.factor));
  }
  DLBLAS_ROW Values fold(Fold<0>, const Kept& kept, const Columns&, const Stats& stats,
                         const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<3>{});
    return values(kept.dy, unpack) * normed(kept, stats, unpack);
  }
  DLBLAS_ROW Values fold(Fold<1>, const Kept& kept, const Columns&, const Stats&,
                         const Access& at) {
    return values(kept.dy, at.unpack(Stage<3>{}));
  }
};

}  // namespace dlblas::norm
