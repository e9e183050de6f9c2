// What the CUDA hosts of attention over paged caches share: pointers and strides, how many columns
// a thread may read at once, and the grid of the kernels with one block per head of a row.
// Read next: mla_decode_lse/mla_cuda.hpp, paged_attention_lse/paged_cuda.hpp.
#pragma once

#include <algorithm>

#include "kernels/cuda_form.hpp"

namespace dlblas::attention {

/// Whether rows of contiguous columns can be read `bytes` at a time.
inline bool reads_wide(const TensorTraits& t, int bytes) {
  const bool side_by_side = t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
                            t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
  return side_by_side && (1 << t.align_log2) >= std::min(16, bytes);
}

template <typename Data, std::size_t kRank>
void point(const Args& args, int tensor, Data*& data, std::int64_t (&strides)[kRank]) {
  data = static_cast<Data*>(args.tensors[tensor].data);
  std::copy_n(args.tensors[tensor].strides, kRank, strides);
}

/// The launch of kernels that walk keys in chunks: `rows` heads of rows of q, and blocks for
/// `columns` of o, `access` columns per thread. Counts lanes as chunk_lanes() does
/// (cache_chunks.cuh).
inline cuda::Launch chunks_launch(std::int64_t rows, std::int64_t columns, std::int64_t access,
                                  std::int32_t threads) {
  std::int64_t lanes = 1;
  const std::int64_t accesses = (columns + access - 1) / access;
  while (lanes < threads && lanes < accesses) lanes *= 2;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(rows);
  how.grid.y = static_cast<unsigned>(std::max<std::int64_t>(1, (accesses + lanes - 1) / lanes));
  how.block.x = static_cast<unsigned>(threads);
  return how;
}

}  // namespace dlblas::attention
