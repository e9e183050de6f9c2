// The last step of matmul's oracles on host and device: the result of a sum in f64, and its allowed
// error. One text for both, which differ in how they walk. Read next:
// ops/gemm/matmul/matmul_ref.cpp, matmul_oracle.cuh.
#pragma once

#include "device/oracle/math.hpp"
#include "device/oracle/sum_error.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

DLBLAS_ORACLE double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kLeakyRelu:
      return x < 0 ? 0.01 * x : x;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kNone:
      break;
  }
  return x;
}

/// How much an activation can amplify a difference: the largest |slope|, rounded up.
DLBLAS_ORACLE double lipschitz(Activation activation) {
  if (activation == Activation::kGelu) return 1.13;
  if (activation == Activation::kSilu) return 1.1;
  return 1;
}

/// The error model of a sum of k products of a's dtype.
DLBLAS_ORACLE SumModel matmul_sum_model(DType dtype, std::int64_t k) {
  return sum_model(k, dtype != DType::kF32);
}

/// Roundings after the sum, relative to the activation's input: two for adding a bias and rounding
/// the f32 result; 14 more for exp and erf, which are good to 1.5e-7.
DLBLAS_ORACLE double epilogue_roundings(Activation activation) {
  return activation == Activation::kGelu || activation == Activation::kSilu ? 16 : 2;
}

/// An element's allowed error in f32 roundings: those of its sum, bias and activation, times how
/// much the activation can amplify them. `lost`: Σ|a·b| over products that may count as 0.
DLBLAS_ORACLE double magnitude_of(const SumModel& model, const SumSizes& sums, double lost,
                                  double sum, double bias, Activation activation) {
  const double roundings = sum_error(model, sums) + lost / kRounding;
  return lipschitz(activation) *
         (roundings + epilogue_roundings(activation) * (std::abs(sum) + std::abs(bias)));
}

}  // namespace dlblas::gemm
