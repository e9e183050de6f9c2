// Rows of capacity gating for AVX-512 (F, BW, VL, DQ).
// The build gives this file its flags by its suffix. Out: dlblas::avx512::moe_gate_passes. Flow:
// [compile] picks the passes.  Read next: ops/moe/gating/gating_simd.hpp.
#include "ops/moe/gating/gating_simd.hpp"
