// The device oracle of the scaled products: its parameters, shared by the host and NVRTC. Read
// next: scaled_oracle.cuh.
#pragma once

#include "device/view.hpp"
#include "ops/gemm/scaled/scaled_ref.hpp"

namespace dlblas::gemm::scaled {

struct ScaledOracleParams {
  static constexpr int kTile = 16;           // a block makes kTile × kTile elements
  StridedView a, b, a_scale, b_scale, bias;  // data and dtype alone; bias.data null: none
  int64_t a_strides[2], b_strides[2], a_scale_strides[2], b_scale_strides[2], bias_stride;
  const int64_t* rows;
  int64_t num_rows, n;
  ScaledRule rule;
  double *value, *magnitude;  // [num_rows, n]
};

}  // namespace dlblas::gemm::scaled
