// What the host code and the instruction-set objects of matmul share besides the product itself
// (cpu/gemm/job.hpp): parameters, and the entry points that each level defines in its own
// namespace.
// In: nothing but plain values; no inline functions, since the linker could keep an instruction-set
// object's copy for everyone.
// Flow: [launch] fills the parameters.  Read next: cpu/matmul_cpu.cpp.
#pragma once

#include <cstdint>

#include "cpu/gemm/job.hpp"
#include "ops/gemm/activation.hpp"

namespace dlblas::gemm {

/// Inputs and results in schema order, key scalars in schema order.
enum Tensor : int { kA, kB, kBias, kOut };
enum Letter : int { kM, kK, kN };
enum Scalar : int { kActivation, kOutDtype };

/// One call: out[m, n] = act(a[m, k] · b[k, n] + bias[n]).
struct MatmulParams {
  GemmMatrix a, b, out;
  GemmMatrix bias;  // row unused; data null when absent
  std::int64_t m, n, k;
  Activation activation;
};

}  // namespace dlblas::gemm

namespace dlblas::baseline {
extern const GemmCode kMatmulCode;
}
namespace dlblas::avx2 {
extern const GemmCode kMatmulCode;
}
namespace dlblas::avx512 {
extern const GemmCode kMatmulCode, kMatmulBf16, kMatmulAmx;
}
