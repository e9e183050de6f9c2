// Plain structs shared by the host, the CPU's instruction-set objects and the CUDA kernel that
// quantise with one scale per group of columns. Read next:
// ops/common/quant_groups/quant_groups.hpp, quant_groups.cuh, quant_groups_simd.hpp.
#pragma once

#include "device/dtype.hpp"
#include "device/view.hpp"

namespace dlblas::quant {

/// How a group's scale is computed and stored: amax / largest in f32 (ops/common/quant_scale.hpp);
/// a power of 2 in f8e8m0; f8e4m3 times one factor for the whole tensor
/// (ops/common/quant_groups/quant_mx.hpp).
enum class QuantScaleKind : int32_t { kFloat, kMx, kNv };

struct QuantGroupsTraits {
  DType type, q_type;
  QuantScaleKind scale;
  int32_t group;   // columns
  int32_t access;  // columns of a thread
  bool gated;      // x is [gate | up]; what is quantised is silu(gate) · up
  bool counted;    // x is [E, M, ·], of which only the first count[e] rows are there
  bool plain;      // rows lie at one stride (of M, and of E), elements side by side and aligned
};

inline constexpr int kQuantGroupsThreads = 256;

/// One call. A block has 2^across threads along a row.
struct QuantGroupsParams {
  StridedView x, q, scale;
  int64_t x_row, q_row, scale_row, scale_group;  // plain: strides in elements; of q, in bytes
  int64_t x_outer, q_outer, scale_outer;         // of E, where rows are counted
  int64_t rows, inner;                           // inner: M
  const void* count;
  int64_t count_stride;
  const float* global;  // kNv
  int32_t width, groups;
  uint32_t chunks;  // blocks side by side
  int32_t across, count_bytes;
  float largest, powers;
  int32_t padding;
};
static_assert(sizeof(QuantGroupsParams) == 3 * 144 + 12 * 8 + 8 * 4,
              "host and device read the same bytes");

/// One row on a CPU: contiguous elements of `type` (f32 if they were gathered).
struct QuantGroupsRow {
  DType type, q_type;
  QuantScaleKind kind;
  const void* x;
  const void* up;  // null: x is quantised; else silu(x) · up
  int64_t width, group;
  float largest, powers, global;
  float* values;  // scratch of a row, where elements are no f32 yet; as many as width
  void* q;
  void* scale;  // f32 or bytes, one per group
};
using QuantGroupsFn = void (*)(const QuantGroupsRow& row);

}  // namespace dlblas::quant

// One entry per instruction set, each in its own object file.
namespace dlblas::baseline {
void quant_groups_row(const quant::QuantGroupsRow& row);
}
namespace dlblas::avx2 {
void quant_groups_row(const quant::QuantGroupsRow& row);
}
namespace dlblas::avx512 {
void quant_groups_row(const quant::QuantGroupsRow& row);
}
