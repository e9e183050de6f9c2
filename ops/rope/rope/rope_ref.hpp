// The oracle of rope: rotation by the table's row at the token's position. Read next:
// ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/rope/rotation_ref.hpp"

namespace dlblas::rope {

enum RopeTensor : int { kRopeQ, kRopeK, kRopePositions, kRopeTable, kRopeQOut, kRopeKOut };
enum RopeLetter : int { kRopeT, kRopeH, kRopeDh, kRopeDn, kRopeHkv, kRopeP };

template <typename Row>
void rope_row(Row& row) {
  const std::int64_t pairs = row.size(kRopeDh);
  const auto position = [&](std::int64_t token) {
    return static_cast<std::int64_t>(row.load_value(kRopePositions, token));
  };
  const auto cos = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kRopeTable, position(token), i % pairs);
  };
  const auto sin = [&](std::int64_t token, std::int64_t i) {
    return row.load_row(kRopeTable, position(token), pairs + i % pairs);
  };
  const auto turn = [&](const Turned& turned) {
    if (!left_alone(row, turned, kRopeT, position))
      rotate_row(row, turned, kRopeT, pairs, row.integer(0), cos, sin);
  };
  turn({kRopeQ, 0, kRopeH});
  turn({kRopeK, 1, kRopeHkv});
}

}  // namespace dlblas::rope
