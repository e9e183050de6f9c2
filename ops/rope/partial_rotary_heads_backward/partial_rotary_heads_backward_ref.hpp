// The oracle of partial_rotary_heads' gradients in q and kv. Rows of all tensors are heads: row r
// is head r % H of token r / H. Read next: ops/rope/latent_heads_ref.hpp,
// partial_rotary_heads_backward_program.hpp.
#pragma once

#include "ops/rope/latent_heads_ref.hpp"

namespace dlblas::rope {

enum PartialGradTensor : int {
  kPartialDq,
  kPartialDk,
  kPartialDvOut,
  kPartialGradCos,
  kPartialGradSin
};
enum PartialGradLetter : int {
  kPartialGradT,
  kPartialGradH,
  kPartialGradDn,
  kPartialGradDh,
  kPartialGradDv
};

template <typename Row>
void partial_rotary_heads_backward_row(Row& row) {
  const std::int64_t plain = row.size(kPartialGradDn), pairs = row.size(kPartialGradDh);
  const std::int64_t token = row.index() / row.size(kPartialGradH);
  const LatentAngles<Row> angles = {row, kPartialGradCos, kPartialGradSin, token, pairs};
  row.each(plain, [&](auto c) {
    row.store(0, c, row.load(kPartialDq, c), 0);
    row.store(1, c, row.load(kPartialDk, c), 0);
  });
  row.each(pairs, [&](auto i) {
    const double y[2] = {row.load(kPartialDq, plain + i), row.load(kPartialDq, plain + pairs + i)};
    turn_back(row, angles, 0, plain, i, y, {0, 0});
  });
  row.each(row.size(kPartialGradDv),
           [&](auto c) { row.store(1, plain + c, row.load(kPartialDvOut, c), 0); });
}

}  // namespace dlblas::rope
