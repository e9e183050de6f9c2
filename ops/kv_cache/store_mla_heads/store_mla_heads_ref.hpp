// The oracle of store_mla_heads: that of store_kv_cache, for tensors with head counts of their own.
// Its tensors stand in the order of store_kv_cache's. Read next:
// ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp.
#pragma once

#include "ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp"

namespace dlblas::kv_cache {

enum StoreMlaLetter : int { kMlaT, kMlaHc, kMlaD, kMlaHp, kMlaP, kMlaPage };

/// Rows of a cache are heads of slots; the two have different numbers of them.
inline void store_mla_heads_reference(const Args& args, const std::int64_t* rows,
                                      std::int64_t num_rows, OracleOut* out) {
  const std::int64_t width = args.letters[kMlaD];
  const TensorView& slots = args.tensors[kSlots];
  std::unordered_map<std::int64_t, std::int64_t> token_of;
  for (std::int64_t t = 0; t < args.letters[kMlaT]; ++t)
    token_of[static_cast<std::int64_t>(load_element(slots, t * slots.strides[0]))] = t;
  for (int cache = 0; cache < 2; ++cache) {
    const TensorView& x = args.tensors[kK + cache];
    const TensorView& before = args.tensors[kKCache + cache];
    const std::int64_t heads = x.shape[1], all = before.numel() / std::max<std::int64_t>(1, width);
    const Rows from = rows_of(x), at = rows_of(before);
    for (std::int64_t i = 0; i < num_rows; ++i) {
      if (rows[i] >= all) continue;
      const auto token = token_of.find(rows[i] / heads);
      const bool written = token != token_of.end();
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t place = i * width + c;
        double value = load_element(before, at.offset(rows[i]) + c * before.strides[3]);
        if (written) {
          const std::int64_t row = token->second * heads + rows[i] % heads;
          value = stored(args, cache, load_element(x, from.offset(row) + c * x.strides[2]));
        }
        out[cache].value[place] = value;
        out[cache].magnitude[place] = written ? std::abs(value) : 0;
      }
    }
  }
}

}  // namespace dlblas::kv_cache
