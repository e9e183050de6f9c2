// Test program whose results are folded over rows, beside a program that reduces no row: y = x·w,
// sums = Σ_T x·w, sizes = Σ_T |x|. Run by tests/cpp/test_row_folds.cpp on CPUs, and compiled there
// for GPUs.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::test {

template <typename Target>
struct RowFolded : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kWeight{};
  static constexpr Operand<2> kY{};
  static constexpr bool kHasColumns = true;
  static constexpr int kFolds = 2;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kWeight> weight;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.weight = at.load_column(kWeight);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) { in.x = at.load(kX); }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW Values product(const Kept& kept, const Columns& columns) {
    return values(kept.x) * values(columns.weight);
  }
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    at.store(kY, product(kept, columns));
  }
  DLBLAS_ROW Values fold(Fold<0>, const Kept& kept, const Columns& columns, const Stats&,
                         const Access&) {
    return product(kept, columns);
  }
  DLBLAS_ROW Values fold(Fold<1>, const Kept& kept, const Columns&, const Stats&, const Access&) {
    return abs(values(kept.x));
  }
};

}  // namespace dlblas::test
