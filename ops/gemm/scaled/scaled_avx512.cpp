// The scaled products for AVX-512: 16 lanes. The suffix of the file name selects its build flags.
// Everything but the pointers below has internal linkage: see cpu/simd.hpp for why. Read next:
// scaled_simd.hpp.
#include "ops/gemm/scaled/scaled_simd.hpp"

namespace dlblas::avx512 {

constinit const gemm::scaled::ScaledRun kScaledRun = scaled_run<false>;
constinit const gemm::scaled::ScaledRun kScaledDepthRun = scaled_run<true>;

}  // namespace dlblas::avx512
