// What the family's rivals by oneDNN share: activations as a step behind the sums, and the time of
// a product. Read next: cpu/gemm/onednn_product.hpp, matmul/cpu/matmul_onednn.cpp.
#pragma once

#include "cpu/gemm/onednn_product.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

/// Why oneDNN's function does not keep NaN and Inf.
Support onednn_activates(Activation activation);
/// Adds the activation behind the product's other steps.
void then_activate(OneDnnProduct& product, Activation activation);
/// Predicted time of a product with an `a` of this type.
double onednn_ms(const Query& q, double m, double n, double k, DType a);

}  // namespace dlblas::gemm
