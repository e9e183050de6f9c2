// The epilogue of a row of gated_linear: gate, product, one rounding, store. Compiled once per
// instruction set.
// Read next: cpu/gemm/epilogue.hpp, ops/mlp/gate_simd.hpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "ops/mlp/gate_simd.hpp"
#include "ops/mlp/gated_linear/cpu/gated_linear_config.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

struct GatedLinearEpilogue {
  using Params = mlp::GatedCpuParams;
  static constexpr int kParts = 2;

  static void store(const Params& p, int64_t i, int64_t j, int64_t n,
                    const float* const (&sums)[kParts]) {
    const float *const gate = sums[0], *const up = sums[1];
    store_values(
        p.y, i, j, n, [&](int64_t c, int64_t lanes) __attribute__((always_inline)) {
          return mul(gate_of(p.gate, load_first<DType::kF32>(gate + c, lanes)),
                     load_first<DType::kF32>(up + c, lanes));
        });
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
