// linear_residual's program on CPUs. Compiled once per instruction set.
// Read next: ../linear_residual_product.hpp, cpu/gemm/product_simd.hpp.
#pragma once

#include "cpu/gemm/product_simd.hpp"
#include "ops/gemm/linear_residual/cpu/linear_residual_code.hpp"
#include "ops/gemm/linear_residual/linear_residual_product.hpp"
#include "ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

struct Activations {
  DLBLAS_PRODUCT Vec activate(Vec x, Activation activation) {
    return DLBLAS_ISA::activate(x, activation);
  }
};
using LinearResidual = gemm::LinearResidual<Activations>;

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
