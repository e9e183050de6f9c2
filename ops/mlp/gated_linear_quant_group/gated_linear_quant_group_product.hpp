// gated_linear_quant_group as a product program: silu(sum₀) · sum₁, one scale per 128 columns.
// Read next: device/gemm/product.hpp, gated_linear_quant_group_ref.hpp (how exactly).
#pragma once

#include "device/gemm/product.hpp"
#include "ops/common/quant_scale.hpp"

namespace dlblas::mlp {

template <typename Math>
struct GatedLinearQuantGroup : ProductProgram {
  static constexpr int kParts = 2, kGroup = 128;

  template <class Sums, class At>
  DLBLAS_PRODUCT auto value(const Sums& sums, const At&) {
    return Math::silu(sums(0)) * sums(1);
  }
  DLBLAS_PRODUCT float scale(float amax) { return quant::QuantScale<Math>::of(amax, 448.0f); }
};

}  // namespace dlblas::mlp
