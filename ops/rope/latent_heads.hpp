// Heads as they enter latent attention: Dn plain channels, then 2·Dh rotated ones. A column of a
// head is a rotated pair (below Dh) or a plain channel (column − Dh). The two channels of a pair
// are adjacent before the rotation, and Dh apart after it. Read next: partial_rotary_heads/.
#pragma once

#include "device/row/program.hpp"
#include "ops/rope/style.hpp"

namespace dlblas::rope {

/// Dh, Dn, Dv, HalfTables.
enum LatentOption : int { kTurned, kPlain, kOfValues, kHalves };

template <typename Target>
struct LatentHeads : RowProgram {
  static constexpr bool kHasHeads = true, kHasColumns = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  DLBLAS_ROW bool turns(const Access& at) { return at.column() < at.option(kTurned); }
  /// The table's columns for both channels of a pair, which has them in `low` and `high`.
  template <int kIndex, typename Words>
  DLBLAS_ROW void load_table(Operand<kIndex> o, bool is_half, Words& low, Words& high,
                             const Access& at) {
    if (!turns(at)) {
      low = high = at.zeros(o);
      return;
    }
    low = at.load(o);
    high = is_half ? low : at.load(o, at.option(kTurned));
  }
};

}  // namespace dlblas::rope
