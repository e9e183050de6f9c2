// Heads of latent attention before it: Dn plain channels, then 2·Dh that turn. A column of a head
// is a pair that turns (below Dh) or a plain channel (Dh further left). Pairs lie side by side
// where they come from, and half of 2·Dh apart where they go. Read next: partial_rotary_heads/.
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
