// The scaled products for AVX2 with FMA and F16C: 8 lanes. The file name's suffix selects its build
// flags. Everything but the pointers below has internal linkage: see cpu/simd.hpp for why. Read
// next: scaled_simd.hpp.
#include "ops/gemm/scaled/scaled_simd.hpp"

namespace dlblas::avx2 {

constinit const gemm::scaled::ScaledRun kScaledRun = scaled_run<false>;
constinit const gemm::scaled::ScaledRun kScaledDepthRun = scaled_run<true>;

}  // namespace dlblas::avx2
