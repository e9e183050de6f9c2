// Rows of capacity gating for every CPU: SSE2 on x86-64, NEON on aarch64.
// The build gives this file its flags by its suffix. Out: dlblas::baseline::moe_gate_passes. Flow:
// [compile] picks the passes.  Read next: ops/moe/gating/gating_simd.hpp.
#include "ops/moe/gating/gating_simd.hpp"
