// Heads as they enter latent attention: Dn plain channels, then 2·Dh rotated ones. A column of a
// head is a rotated pair (below Dh) or a plain channel (column − Dh). The two channels of a pair
// are adjacent before the rotation, and Dh apart after it. Read next: partial_rotary_heads/.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::rope {

/// Dh, Dn, Dv.
enum LatentOption : int { kTurned, kPlain, kOfValues };

template <typename Target>
struct LatentHeads : RowProgram {
  static constexpr bool kHasHeads = true, kHasColumns = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  DLBLAS_ROW bool turns(const Access& at) { return at.column() < at.option(kTurned); }
};

}  // namespace dlblas::rope
