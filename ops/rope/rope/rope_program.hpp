// rope: rotation by the table rows that positions select. A row holds cos, then sin, one of each
// per pair; all heads of a token share it.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

template <typename Target>
struct Rope : Rotation<Target> {
  using Base = Rotation<Target>;
  using Access = typename Base::Access;
  static constexpr Operand<2> kTable{};

  struct Columns {
    RowWords<Target, kTable> cos, sin;
  };
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const bool rotates = Base::rotates(at);  // else zeros, which nothing reads: g++ 12 warns
    columns.cos = rotates ? at.load(kTable) : at.zeros(kTable);
    columns.sin = rotates ? at.load(kTable, at.option(kPairs)) : at.zeros(kTable);
  }
  template <typename Stats>
  DLBLAS_ROW void store(const typename Base::Kept& kept, const Columns& columns, const Stats&,
                        const Access& at) {
    if (!Base::rotates(at)) return Base::copy(kept, at);
    const auto &cos = values(columns.cos), &sin = values(columns.sin);
    Base::rotate(kept, cos, sin, cos, sin, at);
  }
};

}  // namespace dlblas::rope
