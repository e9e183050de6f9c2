// Products of small matrices compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the function below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/small.hpp"

namespace dlblas::avx2 {

void small(const GemmJob& job, float* room) { multiply_small(job, room); }

}  // namespace dlblas::avx2
