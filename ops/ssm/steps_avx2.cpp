// Steps of state-space models for AVX2 with FMA and F16C.
// The build selects this file's compiler flags by its suffix. Out: dlblas::avx2::ssm_passes. Flow:
// [compile] picks the passes.  Read next: ops/ssm/steps_simd.hpp.
#include "ops/ssm/steps_simd.hpp"
