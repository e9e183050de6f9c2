// The oracle of mrope_heads: pairs before `first` turn by the table's row at the first position,
// those before `second` at the second one, the others at the third. Read next:
// ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/rope/rope/rope_ref.hpp"

namespace dlblas::rope {

enum MropeTensor : int { kMropeQ, kMropeK, kMropeTime, kMropeHeight, kMropeWidth, kMropeTable };
enum MropeScalar : int { kMropeFirst, kMropeSecond, kMropeStyle };

template <typename Row>
void mrope_heads_row(Row& row) {
  const std::int64_t pairs = row.size(kRopeDh);
  const auto angle = [&](std::int64_t token, std::int64_t i, std::int64_t shift) {
    const std::int64_t pair = i % pairs;
    const int section = pair < row.integer(kMropeFirst)    ? kMropeTime
                        : pair < row.integer(kMropeSecond) ? kMropeHeight
                                                           : kMropeWidth;
    const auto position = static_cast<std::int64_t>(row.load_column(section, token));
    return row.load_row(kMropeTable, position, shift + pair);
  };
  const auto cos = [&](std::int64_t token, std::int64_t i) { return angle(token, i, 0); };
  const auto sin = [&](std::int64_t token, std::int64_t i) { return angle(token, i, pairs); };
  const bool interleaved = row.integer(kMropeStyle) == 1;
  rotate_row(row, {kMropeQ, 0, kRopeH}, kRopeT, pairs, interleaved, cos, sin);
  rotate_row(row, {kMropeK, 1, kRopeHkv}, kRopeT, pairs, interleaved, cos, sin);
}

}  // namespace dlblas::rope
