// Plain structs shared by the host, the CPU's instruction-set objects and the CUDA kernels of
// grouped_topk. Read next: ops/moe/grouped_topk/grouped_topk.cuh, grouped_topk_simd.hpp.
#pragma once

#include "device/dtype.hpp"
#include "device/view.hpp"

namespace dlblas::moe {

struct GroupedTopkTraits {
  DType type;  // of logits
  DType bias_type;
  bool bias;     // is given
  bool softmax;  // else sigmoid
  bool aligned;  // every element is aligned to its size
  bool many;     // topk is above 64: more places than lanes hold
};

/// A row in a warp's registers. If groups are chosen, a group has 32, 16, … 1 lanes, as many as the
/// number of groups allows; else all columns are one group of 32 lanes. A lane has as many columns
/// of its group as that takes; the last lanes may have fewer, or none.
struct GroupedTopkLanes {
  DType type;
  DType bias_type;
  bool bias;
  bool softmax;
  bool aligned;     // every element is aligned to its size; else access is 1
  bool full;        // every lane has all its columns
  bool flat;        // rows lie on one stride in every tensor
  bool wide;        // topk is above 32
  int32_t lanes;    // of a group
  int32_t columns;  // of a lane
  int32_t access;   // neighbouring columns that are loaded at once
  static constexpr int32_t kMaxGroups = 32, kMaxColumns = 16;
};

/// The searched knobs.
struct GroupedTopkConfig {
  int32_t warps = 4;  // rows of a block
};

/// One call. Strides are in elements.
struct GroupedTopkParams {
  StridedView logits, weights, ids;
  int64_t logits_stride, weights_stride, ids_stride;  // of the last dimension
  int64_t logits_row, weights_row, ids_row;           // between rows, where they lie on one stride
  const void* bias;
  int64_t bias_stride;
  int64_t rows;
  int32_t experts, groups, group, topk_groups, topk, shared, lanes;  // lanes: of a group
  int32_t renormalize;
  float scale;
};
static_assert(sizeof(GroupedTopkParams) == 3 * 144 + 9 * 8 + 9 * 4 + 4,
              "host and device read the same bytes");

/// The place where a warp keeps column c, padded so that columns of neighbouring groups are in
/// different banks.
constexpr int32_t grouped_topk_place(int32_t c) { return c + c / 32; }
/// 32-bit words of shared memory per row: its experts' ranks, then 64 bits per group.
constexpr int32_t grouped_topk_words(int32_t experts, int32_t groups) {
  return (grouped_topk_place(experts) + 2) / 2 * 2 + 2 * groups;
}

/// One row's scores on a CPU. `x` is the row as f32.
struct GroupedScores {
  const float* x;
  const float* bias;  // or null
  int64_t experts;
  bool softmax;
  float* biased;  // out: what experts are chosen by
  float max;      // out, with softmax: the largest logit, and Σ e^(x − max)
  double sum;
};
struct GroupedTopkPasses {
  void (*widen)(DType type, const void* row, int64_t count, float* to);
  void (*score)(GroupedScores& row);
};

}  // namespace dlblas::moe

// One entry per instruction set, each in its own object file.
namespace dlblas::baseline {
moe::GroupedTopkPasses grouped_topk_passes();
}
namespace dlblas::avx2 {
moe::GroupedTopkPasses grouped_topk_passes();
}
namespace dlblas::avx512 {
moe::GroupedTopkPasses grouped_topk_passes();
}
