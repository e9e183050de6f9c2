// Plain structs shared by the host, the CPU's instruction-set objects and the CUDA kernels of
// capacity gating. Choice j of token t is item j·T + t everywhere. Read next: gating.cuh.
#pragma once

#include "ops/moe/sort/sort_config.hpp"

namespace dlblas::moe {

struct MoeGateTraits {
  DType type;    // of logits
  DType result;  // of l_aux, weights and their gradients
  int32_t held;  // logits that a lane keeps; 0: rows are read again
  bool aligned;  // logits are aligned to their size
  bool aligned_results;
};
struct MoeGradientTraits {
  DType type, result;
  int32_t lanes;  // of a token: a power of two, 32 at most
  int32_t vec;    // logits of an access; rows are contiguous and aligned to it where it is not 1
  int32_t held;   // accesses that a lane keeps; 0: rows are read again
  bool aligned, aligned_results;
};
inline constexpr int kMoeGateTokens = 8;  // of a warp
/// Tokens of a block, which counts their choices: one chunk of the sort.
inline constexpr int kMoeGateChunk = kMoeGateTokens * kMoeWarps;
inline constexpr int kMoeMaxHeld = 16;
/// True if a warp keeps a row of logits; else it reads the row again.
constexpr bool holds_rows(int64_t experts) { return experts <= kMoeMaxHeld * 32; }
/// The most counters that a block keeps in shared memory; if there are more, it counts in the
/// table.
inline constexpr int kMoeGateCounters = 4096;

struct MoeGateParams {
  const void* logits;
  int64_t row, column;  // strides
  int32_t tokens, experts, choices, parts;
  int32_t* chosen;  // [choices, tokens]: experts, −1 beyond the last
  float* gates;     // [choices, tokens]: their softmax
  float* sums;      // [experts, parts]: of the softmax, over tokens of a block, or of a warp
  int32_t* counts;  // [experts, choices, blocks]: of choices
  int32_t blocks, unused;
};
static_assert(sizeof(MoeGateParams) == 80, "host and device read the same bytes");

struct MoeGateScanParams {
  MoeSortParams sort;
  MoeColumn first_choices;
  const float* sums;  // [experts, parts]
  double* terms;      // [experts]: of l_aux
  int32_t parts, tokens;
};
static_assert(sizeof(MoeGateScanParams) == 120, "host and device read the same bytes");

struct MoeGatePlaceParams {
  MoeSortParams sort;
  MoeColumn slots, kept, select;
  MoeColumn weights;
  void* l_aux;
  const float* gates;
  const double* terms;
  int64_t places;  // experts · capacity
  int32_t capacity, tokens, choices;
  float eps;
};
static_assert(sizeof(MoeGatePlaceParams) == 192, "host and device read the same bytes");

struct MoeGateBackwardParams {
  const void *dl_aux, *logits;
  MoeColumn dweights, kept, first_choices;
  void* dlogits;
  int64_t row, column, out_row, out_column;  // strides of logits and dlogits
  int32_t tokens, experts, choices;
  float eps;
  double share;  // E / T²
};
static_assert(sizeof(MoeGateBackwardParams) == 128, "host and device read the same bytes");

/// What a CPU does with a contiguous row of logits.
struct MoeGatePasses {
  /// x = the row in f32, gates = its softmax.
  void (*softmax)(DType type, const void* row, int64_t count, float* x, float* gates);
  /// gates = e^(x − max) of the row in f64, x = the row in f32, of[0] = Σ gates, of[1] = Σ gates ·
  /// slopes.
  void (*powers)(DType type, const void* row, int64_t count, const double* slopes, float* x,
                 double* gates, double* of);
  /// values = gates · scale · (slopes − mean), in f64 until they are rounded; if `to` is given,
  /// also as a row of `type`.
  void (*gradient)(DType type, const double* gates, const double* slopes, int64_t count,
                   double scale, double mean, float* values, void* to);
};

}  // namespace dlblas::moe

namespace dlblas::avx512 {
moe::MoeGatePasses moe_gate_passes();
}
namespace dlblas::avx2 {
moe::MoeGatePasses moe_gate_passes();
}
namespace dlblas::baseline {
moe::MoeGatePasses moe_gate_passes();
}
