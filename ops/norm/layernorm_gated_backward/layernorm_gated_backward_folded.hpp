// The gradient of layernorm_gated_rows in the form that row_folded takes (device/row/folded.cuh),
// for GPUs only. In: LayernormGatedBackward as Base: operands, statistics, terms. Read next:
// ops/norm/layer_norm_folded.hpp (the same without a gate, and why),
// ops/norm/layernorm_gated_backward/layernorm_gated_backward_program.hpp.
#pragma once

#include "ops/common/silu_gate.hpp"
#include "ops/norm/layernorm_gated_rows/layernorm_gated_rows_program.hpp"

namespace dlblas::norm {

/// v − mean and σ(z) stay in f32, and stages 1 and 2 share one reduction; an rms_norm has no other.
/// Where Σ g·(v − mean) leaves f32's range, stage 2 runs after all.
template <typename Base, typename Target>
struct LayernormGatedFolded : Base {
  using typename Base::Access, typename Base::Columns, typename Base::Forward,
      typename Base::Loaded, typename Base::Norm, typename Base::Sums, typename Base::Values;
  using FourSums = typename Target::FourSums;
  using Math = typename Target::Math;
  static constexpr int kColumnsStage = 1;

  struct Kept {
    Values v, share;  // v is v − mean from stage 1 on; σ(z)
    RowWords<Target, Norm::kX> x;
    RowWords<Target, Forward::kZ> z;
    RowWords<Target, Base::kDy> dy;
  };
  struct Stats : Base::Stats {
    float pull, offset;  // dv = g·factor + offset − v·pull
    bool lost;           // stage 2 is needed
  };

  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access& at) {
    kept.v = values(in.x);
    if (at.option(kGate)) kept.share = sigmoid(values(in.z));
    if (at.option(kGate) == kGateBefore) kept.v = kept.v * (values(in.z) * kept.share);
    kept.x = in.x, kept.z = in.z, kept.dy = in.dy;
  }
  DLBLAS_ROW Values normed(const Kept& kept, const Stats& stats, const Access& at) {
    if (at.option(kRms)) return kept.v * Values(stats.factor);
    return fma(kept.v, Values(stats.factor), Values(stats.shift));
  }
  DLBLAS_ROW Values inner(const Kept& kept, const Access& at, const RowUnpack& unpack) {
    const Values dy = values(kept.dy, unpack);
    if (at.option(kGate) != kGateBehind) return dy;
    return dy * (values(kept.z, unpack) * kept.share);
  }
  DLBLAS_ROW Values gradient(const Kept& kept, const Columns& columns, const Access& at,
                             const RowUnpack& unpack) {
    return Base::weighted(inner(kept, at, unpack), columns, at);
  }

  DLBLAS_ROW typename Forward::Sum partial(Stage<0>) { return {}; }
  DLBLAS_ROW FourSums partial(Stage<1>) { return {}; }
  DLBLAS_ROW Sums partial(Stage<2>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, typename Forward::Sum& sum, const Kept& kept, const Columns&,
                             const Stats&, const Access&) {
    sum.add(kept.v);
  }
  DLBLAS_ROW void accumulate(Stage<1>, FourSums& sums, Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    if (!at.option(kRms)) kept.v = kept.v - Values(stats.mean);
    const Values scaled = kept.v * Values(at.call.f[Norm::kScale]);
    const Values g = gradient(kept, columns, at, at.unpack(Stage<1>{}));
    if (at.option(kRms))
      sums.add_products(scaled, g, kept.v);
    else
      sums.add(scaled, g, kept.v);
  }
  DLBLAS_ROW void accumulate(Stage<2>, Sums& sums, const Kept& kept, const Columns& columns,
                             const Stats& stats, const Access& at) {
    sums.add(gradient(kept, columns, at, at.unpack(Stage<2>{})), normed(kept, stats, at));
  }

  template <int kStage, typename Total>
  DLBLAS_ROW void finalize(Stage<kStage> stage, Stats& stats, const Total& total,
                           const RowCall& call) {
    if constexpr (kStage == 1) {
      const bool rms = call.options[kRms] != 0;
      stats.mean = rms ? 0 : stats.mean;
      Base::finalize(stage, stats, total.first(), call);
      const float correction = Norm::mean_of(total.sum, call) * call.f[Norm::kUnscale];
      const float slope = Norm::mean_of(total.products, call);
      stats.gradient = rms ? 0 : Norm::mean_of(total.other, call);
      stats.product = (rms ? slope : slope - correction * stats.gradient) * stats.factor;
      // Products below 2^-126 lost bits; a factor above 1 makes that visible.
      stats.lost = !(Math::abs(total.products) <= 0x1p126f) ||
                   (stats.factor > 1 && slope != 0 && Math::abs(slope) < 0x1p-100f);
    } else {
      Base::finalize(stage, stats, total, call);
    }
    if constexpr (kStage > 0) {
      stats.pull = stats.product * stats.factor * stats.factor;
      const float centre = call.options[kRms] != 0 ? 0 : stats.shift * stats.product;
      stats.offset = -(stats.gradient + centre) * stats.factor;
    }
  }
  DLBLAS_ROW bool skips(Stage<2>, const Stats& stats) { return !stats.lost; }

  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats& stats,
                        const Access& at) {
    const RowUnpack& unpack = at.unpack(Stage<3>{});
    const Values h = inner(kept, at, unpack) * Values(stats.factor);
    Values scaled = Base::weighted(h, columns, at);
    if (!at.option(kRms)) scaled = scaled + Values(stats.offset);
    typename Base::Ready made = {normed(kept, stats, at), h, h, h};
    if (at.option(kGate)) {
      made.gate = values(kept.z, unpack) * kept.share;
      const Values other =
          at.option(kGate) == kGateBefore ? values(kept.x, unpack) : values(kept.dy, unpack);
      made.slope = other * activation::SiluGate::slope_of(kept.share, made.gate);
    }
    Base::write(fma(kept.v, Values(-stats.pull), scaled), made, columns, at);
  }
  /// Adds a term to a sum over rows.
  DLBLAS_ROW void add(Fold<0>, Values& sum, const Kept& kept, const Stats& stats,
                      const Access& at) {
    const Values h = inner(kept, at, at.unpack(Stage<3>{}));
    if (!at.option(Norm::kHasWeight)) return;
    if (at.option(kRms))
      sum = fma(h * Values(stats.factor), kept.v, sum);
    else
      sum = fma(h, normed(kept, stats, at), sum);
  }
  DLBLAS_ROW void add(Fold<1>, Values& sum, const Kept& kept, const Stats&, const Access& at) {
    if (at.option(Norm::kHasBias)) sum = sum + inner(kept, at, at.unpack(Stage<3>{}));
  }
};

}  // namespace dlblas::norm
