// Parameters of matmul's device oracle, shared by the host and NVRTC. Read next:
// ops/gemm/matmul/matmul_oracle.cuh.
#pragma once

#include "device/view.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas {

struct MatmulOracleParams {
  static constexpr int kTile = 16;  // a block makes kTile × kTile elements; a step of the path
  DeviceView a, b, bias;            // data and dtype alone; bias.data null: none
  int64_t a_strides[2], b_strides[2], bias_stride;
  const int64_t* rows;
  int64_t num_rows, n, k;
  gemm::Activation activation;
  double stretch;                  // its Lipschitz constant
  double worst, walk, alike, cut;  // registry/sum_error.hpp
  double epilogue;                 // roundings of what the activation gets
  double lost_scale;               // weight of products with a subnormal operand in the magnitude
  double *value, *magnitude;       // [num_rows, n]
};

}  // namespace dlblas
