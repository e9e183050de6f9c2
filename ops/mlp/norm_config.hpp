// What the host code and the GPU kernels that normalise rows on the way to a product share, besides
// the products themselves. In: nothing but plain values; read by the host compiler and by NVRTC.
// Read next: norm_programs.cuh.
#pragma once

#include "device/gemm/config.hpp"
#include "ops/mlp/gate.hpp"

namespace dlblas::mlp {

/// What the Problem fixes of program(r · sum).
struct NormedTraits {
  DType out, gain;
  bool out_vector;  // rows of y are contiguous and 16-byte aligned
  bool aligned;     // every element is aligned to its size
  Gate gate;        // of two products; else unused

  constexpr GemmOutTraits stored() const { return {out, out_vector, aligned}; }
};

}  // namespace dlblas::mlp
