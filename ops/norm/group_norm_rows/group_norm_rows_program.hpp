// group_norm_rows: layer_norm of rows whose weight and bias belong to the row's phase, t % groups,
// and to groups of `inner` columns (a channel's positions), followed by silu if the call requests
// it.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/norm/layer_norm/layer_norm_program.hpp"

namespace dlblas::norm {

template <typename Target>
struct GroupNormRows : LayerNorm<Target> {
  using Forward = LayerNorm<Target>;
  using typename Forward::Access, typename Forward::Columns, typename Forward::Kept,
      typename Forward::Stats, typename Forward::Values;
  static constexpr int kSilu = 2;  // an option
  static constexpr bool kHasColumns = false, kSeldomF16 = true;

  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    Values y = Forward::normed(values(kept.x, at.unpack(Stage<2>{})), stats);
    if (at.option(Forward::kHasWeight)) y = y * at.load_group(Forward::kWeight);
    if (at.option(Forward::kHasBias)) y = y + at.load_group(Forward::kBias);
    if (at.option(kSilu)) y = silu(y);
    at.store(Forward::kY, y);
  }
};

}  // namespace dlblas::norm
