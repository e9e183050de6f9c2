// What the two operators of weights in panels share: where an element of a weight [N, K] is among
// panels (cpu/gemm/job.hpp). Read next: ../weight_panels/,
// ../linear_panels/.
#pragma once

#include "cpu/gemm/job.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm {

/// The place of element (row, depth) of a weight of n rows and k depths.
inline std::int64_t place_in_panels(DType type, std::int64_t n, std::int64_t k, std::int64_t row,
                                    std::int64_t depth) {
  const std::int64_t lane = row % kPanelColumns, j = row - lane;
  if (j >= panel_columns(n)) return row * k + depth;
  const std::int64_t of_chunk = depth % kPanelChunk, chunk = depth - of_chunk;
  const std::int64_t start = panel_start(n, k, j, chunk);
  // The last chunk of a block of depths may not be whole.
  const bool pairs = has_panel_pairs(type) && k - chunk >= kPanelChunk;
  if (!pairs) return start + of_chunk * kPanelColumns + lane;
  return start + of_chunk / 2 * (2 * kPanelColumns) + 2 * lane + of_chunk % 2;
}

/// Are panels, tensor `i`, without gaps? One without elements has any strides.
inline bool is_whole(const Problem& p, int i, int n, int k) {
  if (p.tensors[i].layout == Layout::kContiguous) return true;
  return p.dims[n] == 0 || p.dims[k] == 0;
}

}  // namespace dlblas::gemm
