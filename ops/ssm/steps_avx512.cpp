// Steps of state-space models for AVX-512 (F, BW, VL, DQ).
// The build selects this file's compiler flags by its suffix. Out: dlblas::avx512::ssm_passes.
// Flow: [compile] picks the passes.  Read next: ops/ssm/steps_simd.hpp.
#include "ops/ssm/steps_simd.hpp"
