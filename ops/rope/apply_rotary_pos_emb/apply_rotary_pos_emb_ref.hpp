// The oracle of apply_rotary_pos_emb: the tables' row of the token. Read next:
// ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {

enum ApplyTensor : int { kApplyQ, kApplyK, kApplyCos, kApplySin };
enum ApplyLetter : int { kApplyT, kApplyH, kApplyDh, kApplyHkv };

template <typename Row>
void apply_rotary_pos_emb_row(Row& row) {
  const auto cos = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kApplyCos, token, i);
  };
  const auto sin = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kApplySin, token, i);
  };
  rotate_row(row, {kApplyQ, 0, kApplyH}, kApplyT, row.size(kApplyDh), row.integer(0) == 1, cos,
             sin);
  rotate_row(row, {kApplyK, 1, kApplyHkv}, kApplyT, row.size(kApplyDh), row.integer(0) == 1, cos,
             sin);
}

}  // namespace dlblas::rope
