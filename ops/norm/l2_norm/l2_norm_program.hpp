// l2_norm of rows: y = x / max(√Σx², eps) = x · rsqrt(max(Σx², eps²)), squares summed in f32, one
// rounding. Rows whose sum leaves f32's range are summed again in f64.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::norm {

template <typename Target>
struct L2Norm : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kY{};
  enum Scalars : int { kEpsSquare };    // RowCall::f
  enum Doubles : int { kEpsSquare64 };  // RowCall::d
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kZeroNeutral = true;
  static constexpr int kSquaresOf = kX.index;
  using Access = typename Target::Access;
  using Math = typename Target::Math;
  using Scale = typename Target::template Scale<kX.index>;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;
  struct Stats {
    Scale scale;
  };

  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept.x = in.x; }

  DLBLAS_ROW typename Target::Sum partial(Stage<0>) { return {}; }
  template <typename Part>
  DLBLAS_ROW void accumulate(Stage<0>, Part& part, const Kept& kept, const Columns&, const Stats&,
                             const Access&) {
    part.add_squares(kept.x);
  }

  /// NaN stays NaN.
  DLBLAS_ROW float square_of(float sum, const RowCall& call) {
    return sum < call.f[kEpsSquare] ? call.f[kEpsSquare] : sum;
  }
  DLBLAS_ROW double square_of(double sum, const RowCall& call) {
    return sum < call.d[kEpsSquare64] ? call.d[kEpsSquare64] : sum;
  }
  /// False for NaN. Where f32 lost the sum, only f64 can tell whether the sum or eps is larger.
  template <typename Total>
  DLBLAS_ROW bool lost(Stage<0>, Total sum, const RowCall& call) {
    const Total square = square_of(sum, call);
    return Math::overflows(sum) || square < 0x1p-100f || square > 0x1p126f;
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, typename Target::Total sum,
                           const RowCall& call) {
    stats.scale = Scale::root(square_of(sum, call));
  }
  DLBLAS_ROW void finalize_wide(Stage<0>, Stats& stats, double sum, const RowCall& call) {
    stats.scale = Scale::wide_root(square_of(sum, call));
  }

  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& stats, const Access& at) {
    at.store(kY, scaled(kept.x, stats.scale));
  }
};

}  // namespace dlblas::norm
