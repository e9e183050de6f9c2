// The oracle of partial_rotary_heads. Rows of all results are heads: row r is head r % H of token
// r / H. Read next: ops/rope/latent_heads_ref.hpp, partial_rotary_heads_program.hpp.
#pragma once

#include "ops/rope/latent_heads_ref.hpp"

namespace dlblas::rope {

enum PartialTensor : int { kPartialQ, kPartialKpe, kPartialKv, kPartialCos, kPartialSin };
enum PartialLetter : int { kPartialT, kPartialH, kPartialDn, kPartialDh, kPartialDv };
enum PartialResult : int { kPartialQOut, kPartialKOut, kPartialVOut };

template <typename Row>
void partial_rotary_heads_row(Row& row) {
  const std::int64_t plain = row.size(kPartialDn), pairs = row.size(kPartialDh);
  const std::int64_t token = row.index() / row.size(kPartialH);
  const LatentAngles<Row> angles = {row, kPartialCos, kPartialSin, token, pairs};
  row.each(plain, [&](auto c) {
    row.store(kPartialQOut, c, row.load(kPartialQ, c), 0);
    row.store(kPartialKOut, c, row.load(kPartialKv, c), 0);
  });
  row.each(pairs, [&](auto i) {
    turn_pair(row, angles, kPartialQOut, plain, i, row.load(kPartialQ, plain + 2 * i),
              row.load(kPartialQ, plain + 2 * i + 1));
    turn_pair(row, angles, kPartialKOut, plain, i, row.load_row(kPartialKpe, token, 2 * i),
              row.load_row(kPartialKpe, token, 2 * i + 1));
  });
  row.each(plain + 2 * pairs, [&](auto c) {
    const double v = c < row.size(kPartialDv) ? row.load(kPartialKv, plain + c) : 0;
    row.store(kPartialVOut, c, v, 0);
  });
}

}  // namespace dlblas::rope
