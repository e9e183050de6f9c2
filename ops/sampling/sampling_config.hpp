// Interface of the host and the CUDA kernel of sampling: plain values. Read next: sampling.cuh.
#pragma once

#include "device/view.hpp"

namespace dlblas::sampling {

/// What is computed from a row's kept elements.
enum class Form : int32_t {
  kSample,  // one of them
  kMask,    // themselves; −inf, of probabilities 0, elsewhere
  kRenorm,  // their probabilities, 0 elsewhere
};

struct SamplingTraits {
  DType type;   // of x, and of what is filtered
  DType count;  // of top_k; kAbsent: none
  Form form;
  bool probs;      // x holds probabilities, else logits
  int32_t access;  // elements of a load (and of a store); 1: of any alignment and stride
};
struct SamplingConfig {
  int32_t threads = 512;  // of a block, which has one row
};
/// Tensors of a call. A view without data: absent.
enum View : int32_t { kOfX, kOfY, kTemperature, kTopK, kTopP, kMinP, kSeeds, kOffsets, kViews };
struct SamplingParams {
  StridedView views[kViews];
  int64_t x_col, y_col;
  int64_t rows, width;
  uint64_t seed, offset;
};

}  // namespace dlblas::sampling
