// mrope_heads: rotation by rows of a table. Three positions, time, height and width of a patch,
// each select the row for one section of a head's pairs.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/rotation.hpp"

namespace dlblas::rope {

template <typename Target>
struct MropeHeads : Rotation<Target> {
  using Base = Rotation<Target>;
  using Access = typename Base::Access;
  using Values = typename Base::Values;
  static constexpr Operand<2> kTable{};
  enum Counts : int { kFirst, kSecond };  // RowCall::n: pairs before the second and third section

  struct Columns {
    Values cos, sin;
  };
  /// Columns of the table, each section's from its own row. Most accesses lie within one section.
  DLBLAS_ROW Values sections(const Access& at, int shift) {
    const int64_t first = at.call.n[kFirst], second = at.call.n[kSecond];
    const int64_t begin = at.column(), end = begin + Target::kElements;
    const bool one = end <= first || begin >= second || (begin >= first && end <= second);
    if (one) {
      const int section = end <= first ? 0 : begin >= second ? 2 : 1;
      return values(at.load_row(kTable, at.number(section), shift));
    }
    const Values time = values(at.load_row(kTable, at.number(0), shift));
    const Values height = values(at.load_row(kTable, at.number(1), shift));
    const Values width = values(at.load_row(kTable, at.number(2), shift));
    return at.select_before(first, time, at.select_before(second, height, width));
  }
  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    columns.cos = columns.sin = Values(0.0f);
    if (!Base::rotates(at)) return;
    columns.cos = sections(at, 0);
    columns.sin = sections(at, at.option(kPairs));
  }
  template <typename Stats>
  DLBLAS_ROW void store(const typename Base::Kept& kept, const Columns& columns, const Stats&,
                        const Access& at) {
    if (!Base::rotates(at)) return Base::copy(kept, at);
    Base::rotate(kept, columns.cos, columns.sin, columns.cos, columns.sin, at);
  }
};

}  // namespace dlblas::rope
