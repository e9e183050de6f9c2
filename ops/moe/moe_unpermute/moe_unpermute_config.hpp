// Shared by the host, the CPU's instruction-set objects and the CUDA kernel of moe_unpermute.
// Read next: moe_unpermute.cuh, moe_unpermute_simd.hpp.
#pragma once

#include "device/types.hpp"

namespace dlblas::moe {

struct MoeUnpermuteTraits {
  DType type, weights, positions;
  int32_t access;       // elements of a thread's access
  bool aligned;         // elements are aligned to their size
  bool aligned_tables;  // weights and positions are, the latter to 4 bytes
};
struct MoeUnpermuteParams {
  const void* rows;
  const void* positions;
  const void* weights;
  void* y;
  int64_t rows_row, rows_column, y_row, y_column;  // strides
  int64_t positions_outer, positions_inner, weights_outer, weights_inner;
  int64_t width, num_rows;
  int32_t choices;
  int32_t unused;
};
static_assert(sizeof(MoeUnpermuteParams) == 120, "host and device read the same bytes");

/// What a CPU does with contiguous columns of a row.
struct MoeUnpermutePasses {
  /// sums[i] += weight · row[i].
  void (*add)(DType type, const void* row, int64_t count, float weight, float* sums);
  /// to[i] = sums[i], rounded.
  void (*store)(DType type, const float* sums, int64_t count, void* to);
};

}  // namespace dlblas::moe

namespace dlblas::avx512 {
moe::MoeUnpermutePasses moe_unpermute_passes();
}
namespace dlblas::avx2 {
moe::MoeUnpermutePasses moe_unpermute_passes();
}
namespace dlblas::baseline {
moe::MoeUnpermutePasses moe_unpermute_passes();
}
