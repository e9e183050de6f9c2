// Page tables, as their sequences use them. In: Args. Out: nothing, or the typed Error.
// Used by: paged_attention_lse, mla_decode_lse.
#pragma once

#include "core/tensor.hpp"

namespace dlblas::attention {

/// Which tensors and sizes say where a sequence's keys lie.
struct PageTable {
  int table, lengths, indptr;  // indptr: -1, or a tensor that may be absent
  int starts;  // -1: one query a sequence; or a tensor that may be absent: where queries begin
  std::int64_t count, tokens, width;  // pages of the cache, tokens of a page, entries of a row
  std::int64_t window;                // keys before a query that it sees; -1: all
};

/// On a CPU: refuses an entry of the table that a sequence uses and the cache has not. Entries
/// behind a sequence's last page, and those before its window, may hold anything. Throws
/// Error(kArgument).
void check_pages(const Args& args, const PageTable& pages);

}  // namespace dlblas::attention
