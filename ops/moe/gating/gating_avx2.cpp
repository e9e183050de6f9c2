// Rows of capacity gating for AVX2 with FMA and F16C.
// The build gives this file its flags by its suffix. Out: dlblas::avx2::moe_gate_passes. Flow:
// [compile] picks the passes.  Read next: ops/moe/gating/gating_simd.hpp.
#include "ops/moe/gating/gating_simd.hpp"
