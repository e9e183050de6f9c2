// The oracle of mrope_heads: pairs before `first` are rotated by the table's row at the first
// position, those before `second` by the one at the second, the others by the one at the third.
// Read next: ops/rope/rotation_ref.hpp.
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
    const auto position = static_cast<std::int64_t>(row.load_value(section, token));
    return row.load_row(kMropeTable, position, shift + pair);
  };
  const auto cos = [&](std::int64_t token, std::int64_t i) { return angle(token, i, 0); };
  const auto sin = [&](std::int64_t token, std::int64_t i) { return angle(token, i, pairs); };
  const auto least = [&](std::int64_t token) {
    double position = row.load_value(kMropeTime, token);
    for (const int section : {kMropeHeight, kMropeWidth}) {
      const double other = row.load_value(section, token);
      if (other < position) position = other;
    }
    return position;
  };
  const auto turn = [&](const Turned& turned) {
    if (!left_alone(row, turned, kRopeT, least))
      rotate_row(row, turned, kRopeT, pairs, row.integer(kMropeStyle), cos, sin);
  };
  turn({kMropeQ, 0, kRopeH});
  turn({kMropeK, 1, kRopeHkv});
}

}  // namespace dlblas::rope
