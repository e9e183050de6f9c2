// What the host sides of state-space kernels share. Read next: step.cuh,
// selective_state_update/selective_state_update_cuda.cpp.
#pragma once

#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"

namespace dlblas::ssm {

/// True if all rows of a tensor can be read `count` elements at a time.
inline bool rows_are_wide(const TensorTraits& t, int count) {
  const bool side_by_side = t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
                            t.layout == Layout::kRowsOuter;
  return side_by_side && (1 << t.align_log2) >= std::min(16, count * size_of(t.dtype));
}
inline DType type_of(const Problem& problem, int tensor) { return problem.tensors[tensor].dtype; }

/// Data and strides of a tensor; an absent one stays null.
template <typename Data, std::size_t kRank>
void point(const Args& args, int tensor, Data*& data, std::int64_t (&strides)[kRank]) {
  if (!args.has(tensor)) return;
  data = args.tensors[tensor].data;
  std::copy_n(args.tensors[tensor].strides, kRank, strides);
}

}  // namespace dlblas::ssm
