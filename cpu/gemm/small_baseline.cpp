// Products of small matrices compiled for the baseline: 4 lanes.
// Everything but the function below has internal linkage: see cpu/simd.hpp for why.
#include "cpu/gemm/small.hpp"

namespace dlblas::baseline {

void small(const GemmJob& job, float* room) { multiply_small(job, room); }

}  // namespace dlblas::baseline
