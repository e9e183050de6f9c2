// What the host code and the instruction-set objects of gated_linear share. In: nothing but plain
// values; no inline functions, since the linker could keep an instruction-set object's copy for
// everyone. Read next: gated_linear_cpu.cpp.
#pragma once

#include "cpu/gemm/job.hpp"
#include "ops/mlp/gate.hpp"

namespace dlblas::mlp {

/// The epilogue of one call: y = gate(sums[0]) · sums[1].
struct GatedCpuParams {
  GemmMatrix y;
  Gate gate;
};

/// y = gate(sums[0]) · sums[1] for rows [begin, end), where both sums are f32 matrices.
struct GatedLinearFinish {
  GatedCpuParams out;
  GemmMatrix sums[2];
  int64_t columns;
};
/// A level's code.
struct GatedLinearCode {
  GemmCode gemm;
  void (*finish)(const GatedLinearFinish&, int64_t begin, int64_t end);
};

}  // namespace dlblas::mlp

namespace dlblas::baseline {
extern const mlp::GatedLinearCode kGatedLinearCode;
}
namespace dlblas::avx2 {
extern const mlp::GatedLinearCode kGatedLinearCode;
}
namespace dlblas::avx512 {
extern const mlp::GatedLinearCode kGatedLinearCode;
extern const GemmCode kGatedLinearBf16, kGatedLinearAmx;
}  // namespace dlblas::avx512
