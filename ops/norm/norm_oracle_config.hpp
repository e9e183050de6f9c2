// Parameters of the norm family's device oracle, shared by the host and NVRTC.
// Read next: ops/norm/norm_oracle.cuh.
#pragma once

#include "device/view.hpp"

namespace dlblas {

struct NormOracleParams {
  DeviceView x, residual, weight;  // residual.data null: rms_norm
  const int64_t* rows;
  int64_t width;
  double eps, weight_offset;
  double roundings, alike;  // allowed, and where squares are alike: norm_ref.cpp derives them
  double unit;              // of a rounding
  int32_t cast_before_weight;
  double *y, *y_magnitude;  // [rows, width]
  double *h, *h_magnitude;  // residual_out's; with residual
};

}  // namespace dlblas
