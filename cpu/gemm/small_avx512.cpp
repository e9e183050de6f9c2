// Products of small matrices compiled for AVX-512: 16 lanes, 32 registers.
// Everything but the function below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/small.hpp"

namespace dlblas::avx512 {

void small(const GemmJob& job, float* room) { multiply_small(job, room); }

}  // namespace dlblas::avx512
