// The oracle of qk_norm_rope: heads normalised, then rotated by the table's row at the token's
// position; also in the cache at the token's slot, while other rows of the cache stay unchanged.
// Read next: ops/rope/normed_heads_ref.hpp, qk_norm_rope_program.hpp.
#pragma once

#include "ops/rope/normed_heads_ref.hpp"

namespace dlblas::rope {

enum QkTensor : int { kQkQ, kQkK, kQkQWeight, kQkKWeight, kQkPlaces, kQkTable, kQkCache, kQkSlots };
enum QkScalar : int { kQkEps, kQkStyle, kQkScale };
enum QkLetter : int { kQkT, kQkH, kQkDh, kQkDp, kQkHkv, kQkP, kQkPc, kQkPage };

template <typename Row>
void qk_norm_rope_row(Row& row) {
  const auto turn = [&](int x, int weight, int heads, int result, std::int64_t head,
                        double scale = 1) {
    const double position = row.load_value(kQkPlaces, head / row.size(heads));
    normed_head(row, {x, weight, result, head, scale},
                {kQkTable, static_cast<std::int64_t>(position)}, row.size(kQkDh), row.scalar(0),
                row.integer(1));
  };
  const auto tokens = row.size(kQkT), heads = row.size(kQkHkv), at = row.index();
  if (at < tokens * row.size(kQkH)) turn(kQkQ, kQkQWeight, kQkH, 0, at);
  if (at < tokens * heads) turn(kQkK, kQkKWeight, kQkHkv, 1, at);
  if (!row.has(kQkCache) || at >= row.size(kQkPc) * row.size(kQkPage) * heads) return;
  std::int64_t token = 0;
  while (token < tokens && row.load_value(kQkSlots, token) != static_cast<double>(at / heads))
    ++token;
  const double scale = static_cast<float>(row.scalar(kQkScale));
  if (token < tokens) return turn(kQkK, kQkKWeight, kQkHkv, 2, token * heads + at % heads, scale);
  row.each(row.width(kQkCache), [&](auto c) { row.store(2, c, row.load(kQkCache, c), 0); });
}

}  // namespace dlblas::rope
