// The end of every row of gated_linear: gate, product, one rounding, store; and the same of sums
// that lie in memory. Compiled once per instruction set.
// Read next: cpu/gemm/epilogue.hpp, ops/mlp/gate_simd.hpp.
#pragma once

#include "cpu/gemm/code.hpp"
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

void finish_rows(const mlp::GatedLinearFinish& f, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float* const sums[2] = {static_cast<const float*>(f.sums[0].data) + i * f.sums[0].row,
                                  static_cast<const float*>(f.sums[1].data) + i * f.sums[1].row};
    GatedLinearEpilogue::store(f.out, i, 0, f.columns, sums);
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
