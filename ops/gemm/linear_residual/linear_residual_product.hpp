// linear_residual as a product program: scales, bias, activation, residual, in f32.
// Read next: device/gemm/product.hpp, linear_residual_ref.hpp (how exactly).
#pragma once

#include "device/gemm/product.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

template <typename Math>
struct LinearResidual : ProductProgram {
  static constexpr ProductOperand<0, Per::kRow> kRowScale{};
  static constexpr ProductOperand<1, Per::kColumn> kColumnScale{};
  static constexpr ProductOperand<2, Per::kColumn> kBias{};
  static constexpr ProductOperand<3, Per::kElement> kResidual{};
  using Operands =
      ProductOperands<ProductOperand<0, Per::kRow>, ProductOperand<1, Per::kColumn>,
                      ProductOperand<2, Per::kColumn>, ProductOperand<3, Per::kElement>>;

  template <class Sums, class At>
  DLBLAS_PRODUCT auto value(const Sums& sums, const At& at) {
    auto y = sums(0);
    if (at.has(kRowScale)) y = y * at(kRowScale);
    if (at.has(kColumnScale)) y = y * at(kColumnScale);
    if (at.has(kBias)) y = y + at(kBias);
    y = Math::activate(y, static_cast<Activation>(at.option(0)));
    if (at.has(kResidual)) y = y + at(kResidual);
    return y;
  }
};

}  // namespace dlblas::gemm
