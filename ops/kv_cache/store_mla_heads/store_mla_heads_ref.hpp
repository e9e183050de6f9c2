// The oracle of store_mla_heads: that of store_kv_cache, for tensors with different numbers of
// heads. Its tensors are in the order of store_kv_cache's. Read next:
// ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp.
#pragma once

#include "ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp"

namespace dlblas::kv_cache {

enum StoreMlaLetter : int { kMlaT, kMlaHc, kMlaD, kMlaHp, kMlaP, kMlaPage };

template <typename Row>
void store_mla_heads_shared(Row& row) {
  keep_token(row, row.size(kMlaP) * row.size(kMlaPage));
}
/// The two caches have different numbers of heads, and so of rows.
template <typename Row>
void store_mla_heads_row(Row& row) {
  const std::int64_t slots = row.size(kMlaP) * row.size(kMlaPage), width = row.size(kMlaD);
  const std::int64_t heads[] = {row.size(kMlaHc), row.size(kMlaHp)};
  for (int cache = 0; cache < 2; ++cache)
    if (row.index() < slots * heads[cache]) store_head(row, cache, heads[cache], width);
}

#if !defined(__CUDACC_RTC__)
inline kernels::SharedSize store_mla_heads_size(const Args& args) {
  return {args.letters[kMlaT], args.letters[kMlaP] * args.letters[kMlaPage]};
}
#endif

}  // namespace dlblas::kv_cache
