// The gradient of layer_norm in the form that row_folded takes (device/row/folded.cuh), for GPUs
// only. In: LayerNormBackward as Base: operands, statistics, terms. Read next:
// ops/norm/layer_norm_backward/layer_norm_backward_program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

/// The form that row_folded takes, where instruction count matters: x − mean stays in f32, and
/// stages 1 and 2 share one reduction, since Σ g·x̂ = r·(Σ g·(x − mean) − (correction of the
/// mean)·Σ g). Where Σ g·(x − mean) leaves f32's range, stage 2 runs after all.
template <typename Base, typename Target>
struct LayerNormFolded : Base {
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
      // Products below 2^-126 lost bits; a factor above 1 makes that visible.
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
