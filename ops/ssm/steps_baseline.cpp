// Steps of state-space models for every CPU: no instruction-set flags (SSE2 on x86-64, NEON on
// aarch64). The build selects this file's compiler flags by its suffix. Out:
// dlblas::baseline::ssm_passes. Flow: [compile] picks the passes.  Read next:
// ops/ssm/steps_simd.hpp.
#include "ops/ssm/steps_simd.hpp"
