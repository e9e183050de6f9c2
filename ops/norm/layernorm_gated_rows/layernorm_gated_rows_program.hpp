// layernorm_gated_rows: layer_norm or rms_norm of rows whose weight is that of their phase, t %
// groups, times silu(z) before or after the norm. A row gated before is kept in f32, so its gate is
// computed once.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/common/seldom.hpp"
#include "ops/norm/layer_norm/layer_norm_program.hpp"

namespace dlblas::norm {

enum GatedNormOption : int { kGate = 2, kRms = 3 };
enum GatedNormGate : int { kNoGate, kGateBehind, kGateBefore };

template <typename Target>
struct LayernormGatedRows : LayerNorm<Target> {
  using Forward = LayerNorm<Target>;
  using typename Forward::Access, typename Forward::Columns, typename Forward::Math,
      typename Forward::Stats, typename Forward::Sum, typename Forward::Sums,
      typename Forward::Values;
  static constexpr Operand<4> kZ{};
  static constexpr bool kHasColumns = false, kOptionalStages = true, kSeldomF16 = true;

  struct Loaded {
    RowWords<Target, Forward::kX> x;
    RowWords<Target, kZ> z;
  };
  struct Kept {
    Values x;
    RowWords<Target, kZ> z;
  };

  /// Rows of an rms_norm have no mean.
  DLBLAS_ROW constexpr bool needs(Stage<0>, const int32_t* options) { return !options[kRms]; }
  DLBLAS_ROW constexpr bool needs(Stage<1>, const int32_t*) { return true; }

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.x = at.load(Forward::kX);
    in.z = at.option(kGate) ? at.load(kZ) : at.zeros(kZ);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access& at) {
    kept.x = values(in.x);
    if (at.option(kGate) == kGateBefore) kept.x = gated(kept.x, values(in.z));
    kept.z = in.z;
  }

  DLBLAS_ROW_SELDOM Values gated(Values x, Values z) { return x * silu(z); }

  DLBLAS_ROW void accumulate(Stage<0>, Sum& sum, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    sum.add(kept.x);
  }
  DLBLAS_ROW void accumulate(Stage<1>, Sums& sums, const Kept& kept, const Columns&,
                             const Stats& stats, const Access& at) {
    const Values d = at.option(kRms) ? kept.x * Values(at.call.f[Forward::kScale])
                                     : Forward::difference(kept.x, stats, at.call);
    sums.add(d, d);
  }
  using Forward::finalize;
  template <typename Total>
  DLBLAS_ROW void finalize(Stage<1> stage, Stats& stats, const Total& total, const RowCall& call) {
    Forward::finalize(stage, stats, total, call);
    if (!call.options[kRms]) return;
    const auto mean = Forward::mean_of(total.products, call);
    stats.factor = Math::rsqrt(mean + call.f[Forward::kScaledEps]) * call.f[Forward::kScale];
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    Values y = at.option(kRms) ? kept.x * Values(stats.factor) : Forward::normed(kept.x, stats);
    if (at.option(Forward::kHasWeight)) y = y * values(at.load(Forward::kWeight));
    if (at.option(Forward::kHasBias)) y = y + values(at.load(Forward::kBias));
    if (at.option(kGate) == kGateBehind) y = y * silu(values(kept.z));
    at.store(Forward::kY, y);
  }
};

}  // namespace dlblas::norm
