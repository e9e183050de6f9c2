// The oracle of qk_norm_rope: heads normalised, then turned by the table's row at the token's
// position. Read next: ops/rope/normed_heads_ref.hpp, qk_norm_rope_program.hpp.
#pragma once

#include "ops/rope/normed_heads_ref.hpp"

namespace dlblas::rope {

enum QkNormRopeTensor : int {
  kQkNormRopeQ,
  kQkNormRopeK,
  kQkNormRopeQWeight,
  kQkNormRopeKWeight,
  kQkNormRopePositions,
  kQkNormRopeTable
};
enum QkNormRopeLetter : int {
  kQkNormRopeT,
  kQkNormRopeH,
  kQkNormRopeDh,
  kQkNormRopeDp,
  kQkNormRopeHkv,
  kQkNormRopeP
};

template <typename Row>
void qk_norm_rope_row(Row& row) {
  const std::int64_t pairs = row.size(kQkNormRopeDh);
  const double eps = row.scalar(0);
  const bool interleaved = row.integer(1) == 1;
  const auto write = [&](int result) {
    return [&row, result](std::int64_t c, double value, double magnitude) {
      row.store(result, c, value, magnitude);
    };
  };
  const auto turn = [&](int x, int weight, int heads, int result) {
    if (row.index() >= row.size(kQkNormRopeT) * row.size(heads)) return;
    const auto position = static_cast<std::int64_t>(
        row.load_column(kQkNormRopePositions, row.index() / row.size(heads)));
    normed_head(row, {x, weight, row.index()}, pairs, eps, interleaved,
                {kQkNormRopeTable, position}, write(result));
  };
  turn(kQkNormRopeQ, kQkNormRopeQWeight, kQkNormRopeH, 0);
  turn(kQkNormRopeK, kQkNormRopeKWeight, kQkNormRopeHkv, 1);
}

}  // namespace dlblas::rope
