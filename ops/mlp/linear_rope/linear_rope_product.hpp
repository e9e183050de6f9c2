// linear_rope as a product program: adds a bias, then rotates pairs of channels, in f32.
// Read next: device/gemm/product.hpp, linear_rope_ref.hpp (how exactly).
#pragma once

#include "device/gemm/product.hpp"

namespace dlblas::mlp {

template <typename Math>
struct LinearRope : ProductProgram {
  static constexpr ProductOperand<0, Per::kColumn> kBias{};
  static constexpr ProductOperand<1, Per::kPair> kCos{};
  static constexpr ProductOperand<2, Per::kPair> kSin{};
  static constexpr bool kPairs = true;
  using Operands = ProductOperands<ProductOperand<0, Per::kColumn>, ProductOperand<1, Per::kPair>,
                                   ProductOperand<2, Per::kPair>>;

  template <class Sums, class At>
  DLBLAS_PRODUCT auto value(const Sums& sums, const At& at) {
    auto y = sums(0);
    if (at.has(kBias)) y = y + at(kBias);
    return y;
  }
  template <class Values, class At>
  DLBLAS_PRODUCT void pair(Values& low, Values& high, const At& at) {
    const Values first = low * at.low(kCos) - high * at.low(kSin);
    high = high * at.high(kCos) + low * at.high(kSin);
    low = first;
  }
};

}  // namespace dlblas::mlp
