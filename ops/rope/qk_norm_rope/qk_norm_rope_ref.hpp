// The oracle of qk_norm_rope: heads normalised, then turned by the table's row at the token's
// position. Read next: ops/rope/normed_heads_ref.hpp, qk_norm_rope_program.hpp.
#pragma once

#include "ops/rope/normed_heads_ref.hpp"

namespace dlblas::rope {

enum QkTensor : int { kQkQ, kQkK, kQkQWeight, kQkKWeight, kQkPositions, kQkTable };
enum QkLetter : int { kQkT, kQkH, kQkDh, kQkDp, kQkHkv, kQkP };

template <typename Row>
void qk_norm_rope_row(Row& row) {
  const auto turn = [&](int x, int weight, int heads, int result) {
    if (row.index() >= row.size(kQkT) * row.size(heads)) return;
    const double position = row.load_column(kQkPositions, row.index() / row.size(heads));
    normed_head(row, {x, weight, result}, {kQkTable, static_cast<std::int64_t>(position)},
                row.size(kQkDh), row.scalar(0), row.integer(1) == 1);
  };
  turn(kQkQ, kQkQWeight, kQkH, 0);
  turn(kQkK, kQkKWeight, kQkHkv, 1);
}

}  // namespace dlblas::rope
