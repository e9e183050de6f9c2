// Interface of hosts and the instruction-set objects of state-space steps: plain values.
// Read next: ops/ssm/steps_simd.hpp (the passes), steps_cpu.hpp (calls them).
#pragma once

#include <stdint.h>

#include "device/dtype.hpp"

namespace dlblas::ssm {

/// One row of the state, and the steps it takes. Rows of f32 are contiguous and need no alignment.
struct SsmRow {
  void* state;      // [count] of state_type
  const void* a;    // [count] f32, or null: `same_a` for all
  const float* b;   // [steps, count]
  const float* c;   // the same
  const float* dt;  // [steps]
  const float* dx;  // [steps] dt · x
  float* y;         // [steps] Σ C · state
  int64_t count, steps;
  float same_a;
  DType state_type;
};

/// A causal convolution of tokens of one channel, or of channels of one token: y[i] = act(bias +
/// Σ_k weight_k · in[k · in_step + i]).
struct ConvLine {
  const float* in;
  const float* weight;  // [taps], weight_step apart
  const float* bias;    // null: none
  float* y;
  int64_t in_step, weight_step, taps, count;
  bool across;  // weights and bias are lines over channels, too
  bool silu;
};

/// CPU passes over rows.
struct SsmPasses {
  void (*widen)(DType type, const void* from, int64_t count, float* to);
  void (*narrow)(DType type, const float* from, int64_t count, void* to);
  /// dt = softplus(dt + bias), where either may be left out; dx = dt · x. bias may be null.
  void (*times)(float* dt, const float* bias, bool softplus, const float* x, float* dx,
                int64_t count);
  /// state = e^(dt·a)·state + dx·b, then Σ c·state, one step after another.
  void (*steps)(const SsmRow& row);
  /// y = (y + d·x) · silu(z); d and z may be null.
  void (*finish)(float* y, const float* d, const float* x, const float* z, int64_t count);
  void (*convolve)(const ConvLine& line);
};

}  // namespace dlblas::ssm

// One entry per instruction set, each in its own object file.
namespace dlblas::baseline {
ssm::SsmPasses ssm_passes();
}
namespace dlblas::avx2 {
ssm::SsmPasses ssm_passes();
}
namespace dlblas::avx512 {
ssm::SsmPasses ssm_passes();
}
