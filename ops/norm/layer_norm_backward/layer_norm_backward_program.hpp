// The gradient of layer_norm on rows. With x̂ = (x − mean)·r and g = dy·weight:
// dx = r·(g − mean_C(g) − x̂·mean_C(g·x̂)); over all rows, dweight = Σ dy·x̂ and dbias = Σ dy.
// Mean and r are layer_norm's own first two stages. In f32, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/layer_norm/layer_norm_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct LayerNormBackwardFolded;

/// Operands 0 and 1, x and weight, are where layer_norm has them; it has no bias here.
template <typename Target>
struct LayerNormBackward : LayerNorm<Target> {
  using Forward = LayerNorm<Target>;
  using FoldedForm = LayerNormBackwardFolded<Target>;
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

/// The form that row_folded takes, where instructions count: x − mean stays as f32, and the sums of
/// stages 1 and 2 meet at once, since Σ g·x̂ = r·(Σ g·(x − mean) − (what corrects the mean)·Σ g).
/// Where Σ g·(x − mean) leaves f32, stage 2 follows after all.
template <typename Target>
struct LayerNormBackwardFolded : LayerNormBackward<Target> {
  using Base = LayerNormBackward<Target>;
  using typename Base::Access, typename Base::Columns, typename Base::Forward,
      typename Base::Loaded, typename Base::Sums, typename Base::Values;
  using FourSums = typename Target::FourSums;
  using Math = typename Target::Math;
  static constexpr int kColumnsStage = 1;

  struct Kept {
    Values x;  // from stage 1 on x − mean
    RowWords<Target, Base::kDy> dy;
  };
  struct Stats : Base::Stats {
    bool lost;  // stage 2 is needed
  };

  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) {
    kept.x = values(in.x), kept.dy = in.dy;
  }
  DLBLAS_ROW Values normed(const Kept& kept, const Stats& stats) {
    return fma(kept.x, Values(stats.factor), Values(stats.shift));
  }
  DLBLAS_ROW Values gradient(const Kept& kept, const Columns& columns, const Access& at,
                             const RowUnpack& unpack) {
    const Values dy = values(kept.dy, unpack);
    return at.option(Forward::kHasWeight) ? dy * values(columns.weight) : dy;
  }

  DLBLAS_ROW typename Forward::Sum partial(Stage<0>) { return {}; }
  DLBLAS_ROW FourSums partial(Stage<1>) { return {}; }
  DLBLAS_ROW Sums partial(Stage<2>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, typename Forward::Sum& sum, const Kept& kept, const Columns&,
                             const Stats&, const Access&) {
    sum.add(kept.x);
  }
  DLBLAS_ROW void accumulate(Stage<1>, FourSums& sums, Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    kept.x = kept.x - Values(stats.mean);
    sums.add(kept.x * Values(at.call.f[Forward::kScale]),
             gradient(kept, columns, at, at.unpack(Stage<1>{})), kept.x);
  }
  DLBLAS_ROW void accumulate(Stage<2>, Sums& sums, const Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    sums.add(gradient(kept, columns, at, at.unpack(Stage<2>{})), normed(kept, stats));
  }

  template <int kStage, typename Total>
  DLBLAS_ROW void finalize(Stage<kStage> stage, Stats& stats, const Total& total,
                           const RowCall& call) {
    if constexpr (kStage == 1) {
      Forward::finalize(stage, stats, total.first(), call);
      const float correction = Forward::mean_of(total.sum, call) * call.f[Forward::kUnscale];
      const float slope = Forward::mean_of(total.products, call);
      stats.gradient = Forward::mean_of(total.other, call);
      stats.product = (slope - correction * stats.gradient) * stats.factor;
      // Products below 2^-126 lost bits; a factor above 1 shows it.
      stats.lost = !(Math::abs(total.products) <= 0x1p126f) ||
                   (stats.factor > 1 && slope != 0 && Math::abs(slope) < 0x1p-100f);
    } else {
      Base::finalize(stage, stats, total, call);
    }
  }
  DLBLAS_ROW bool skips(Stage<2>, const Stats& stats) { return !stats.lost; }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const Values centred =
        gradient(kept, columns, at, at.unpack(Stage<3>{})) - Values(stats.gradient);
    at.store(Base::kDx,
             fma(normed(kept, stats), Values(-stats.product), centred) * Values(stats.factor));
  }
  DLBLAS_ROW Values fold(Fold<0>, const Kept& kept, const Columns&, const Stats& stats,
                         const Access& at) {
    return values(kept.dy, at.unpack(Stage<3>{})) * normed(kept, stats);
  }
  DLBLAS_ROW Values fold(Fold<1>, const Kept& kept, const Columns&, const Stats&,
                         const Access& at) {
    return values(kept.dy, at.unpack(Stage<3>{}));
  }
};

}  // namespace dlblas::norm
