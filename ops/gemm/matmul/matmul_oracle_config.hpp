// Parameters of matmul's device oracle, shared by the host and NVRTC. Read next:
// ops/gemm/matmul/matmul_oracle.cuh.
#pragma once

#include "device/view.hpp"
#include "ops/gemm/matmul/matmul_ref.hpp"

namespace dlblas::gemm {

struct MatmulOracleParams {
  static constexpr int kTile = kSumStep;  // a block makes kTile × kTile elements
  StridedView a, b, bias;                 // data and dtype alone; bias.data null: none
  int64_t a_strides[2], b_strides[2], bias_stride;
  const int64_t* rows;
  int64_t num_rows, n, k;
  MatmulRule rule;
  double *value, *magnitude;  // [num_rows, n]
};

}  // namespace dlblas::gemm
