// Validation of page tables against the sequences that use them. In: Args. Out: nothing, or the
// typed Error.
// Used by: paged_attention_lse, mla_decode_lse.
#pragma once

#include "core/tensor.hpp"

namespace dlblas::attention {

/// The tensors and sizes that locate a sequence's keys.
struct PageTable {
  int table, lengths, indptr;  // indptr: -1, or a tensor that may be absent
  int starts;  // -1: one query a sequence; or a tensor that may be absent: where queries begin
  std::int64_t count, tokens, width;  // pages of the cache, tokens of a page, entries of a row
  std::int64_t window;                // keys before a query that it sees; -1: all
};

/// On a CPU: refuses a table entry that a sequence uses but that is no page of the cache. Entries
/// past a sequence's last page, and those before its window, may hold anything. Throws
/// Error(kArgument).
void check_pages(const Args& args, const PageTable& pages);

}  // namespace dlblas::attention
