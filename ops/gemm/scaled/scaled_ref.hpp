// What the oracles of the scaled products, the host's and the device's, make of one element: the
// value in f64, and how far a kernel may be from it. One text for both, which differ in how they
// walk.
//
//   out = Σ_g f_g · S_g + bias,   S_g = Σ a·b over group g of K,   f_g = a_scale · b_scale in f32
//
// i8: S_g is exact in every kernel (i32 sums, or f32 sums of at most 128 terms); what is left are
// the roundings of f_g · S_g and of the sums of groups.
// e4m3: what Hopper's tensor core cuts off (device/oracle/cut_sum.hpp); kernels take the sum out
// every 128 of K.
// Read next: scaled_ref.cpp, scaled_oracle.cuh, device/oracle/cut_sum.hpp.
#pragma once

#include "device/oracle/cut_sum.hpp"

namespace dlblas::gemm::scaled {

/// Terms of K that a kernel may add up in a tensor core.
inline constexpr int kOracleGroup = 128;

/// Of a walk over groups with factors, or over groups of factor 1 and then one for all.
DLBLAS_ORACLE double scaled_value(const CutWalk& walk, double whole, double bias) {
  return whole * walk.total() + bias;
}
DLBLAS_ORACLE double scaled_magnitude(const CutWalk& walk, double whole, double bias) {
  return std::abs(whole) * walk.magnitude() + 4 * kRounding * std::abs(bias);
}

}  // namespace dlblas::gemm::scaled
