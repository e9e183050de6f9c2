// The oracle of apply_rotary_pos_emb: rotation by the token's row of the tables. Read next:
// ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {

enum ApplyTensor : int { kApplyQ, kApplyK, kApplyCos, kApplySin };
enum ApplyLetter : int { kApplyT, kApplyH, kApplyDh, kApplyHkv };
enum ApplyScalar : int { kApplyStyle, kApplyCastBeforeSum };

template <typename Row>
void apply_rotary_pos_emb_row(Row& row) {
  // A table of half as many columns serves both channels of a pair.
  const auto cos = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kApplyCos, token, i % row.width(kApplyCos));
  };
  const auto sin = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kApplySin, token, i % row.width(kApplySin));
  };
  const std::int64_t pairs = row.size(kApplyDh);
  const std::int64_t style = row.integer(kApplyStyle);
  const bool cast = row.integer(kApplyCastBeforeSum) != 0;
  rotate_row(row, {kApplyQ, 0, kApplyH}, kApplyT, pairs, style, cos, sin, cast);
  rotate_row(row, {kApplyK, 1, kApplyHkv}, kApplyT, pairs, style, cos, sin, cast);
}

}  // namespace dlblas::rope
