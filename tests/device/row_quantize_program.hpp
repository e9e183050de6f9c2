// Test program for row-skeleton features that no operator of the tree uses yet: groups of columns
// with one result each, one-byte results, a column vector, an option, and one value per row. q,
// scale = quantise(x · w) by groups of 128 columns; peak = max |x · w| of the row. Run by
// tests/cpp/test_rows.cpp on CPUs, and compiled there for GPUs.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::test {

template <typename Target>
struct RowQuantize : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kWeight{};
  static constexpr Operand<2> kQ{};
  static constexpr Operand<3> kScale{};
  static constexpr Operand<4> kPeak{};
  enum Scalars { kLargest };  // of q's type
  enum Options { kHasWeight };
  static constexpr int kStages = 2, kScopes[] = {kRowScope, kGroupScope};
  static constexpr bool kHasColumns = true, kHasRowResults = true;
  static constexpr int kColumnsStage = 0;
  using Access = typename Target::Access;
  using Values = typename Target::Values;
  using Max = typename Target::Max;
  using Math = typename Target::Math;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  struct Columns {
    RowWords<Target, kWeight> weight;
  };
  struct Kept {
    RowWords<Target, kX> x;
    float factor;
  };
  struct Stats {
    float peak;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    if (at.option(kHasWeight)) columns.weight = at.load_column(kWeight);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept.x = in.x; }
  DLBLAS_ROW Values product(const Kept& kept, const Columns& columns, const Access& at) {
    if (at.option(kHasWeight)) return values(kept.x) * values(columns.weight);
    return values(kept.x);
  }

  template <int kStage>
  DLBLAS_ROW Max partial(Stage<kStage>) {
    return {};
  }
  template <int kStage>
  DLBLAS_ROW void accumulate(Stage<kStage>, Max& max, const Kept& kept, const Columns& columns,
                             const Stats&, const Access& at) {
    max.add_abs(product(kept, columns, at));
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, float max, const RowCall&) { stats.peak = max; }
  DLBLAS_ROW void finalize_group(Stage<1>, Kept& kept, float max, const Access& at) {
    const float scale = Math::max(max, 1e-10f) / at.call.f[kLargest];
    kept.factor = 1 / scale;
    at.store_group(kScale, scale);
  }
  DLBLAS_ROW void store_row(const Stats& stats, const typename Target::Row& row) {
    row.store_value(kPeak, stats.peak);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    at.store(kQ, product(kept, columns, at) * Values(kept.factor));
  }
};

}  // namespace dlblas::test
