// Parameters of matmul's device oracle, shared by the host and NVRTC. Read next:
// ops/gemm/matmul/matmul_oracle.cuh.
#pragma once

#include "device/oracle/sum_error.hpp"
#include "device/view.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

struct MatmulOracleParams {
  static constexpr int kTile = kSumStep;  // a block makes kTile × kTile elements
  StridedView a, b, bias;                 // data and dtype alone; bias.data null: none
  int64_t a_strides[2], b_strides[2], bias_stride;
  const int64_t* rows;
  int64_t num_rows, n, k;
  gemm::Activation activation;
  SumModel model;
  bool loses;                 // products with a subnormal operand may count as 0
  double *value, *magnitude;  // [num_rows, n]
};

}  // namespace dlblas::gemm
