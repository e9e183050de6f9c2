// The norm kernels for every CPU: no instruction-set flags (SSE2 on x86-64, NEON on aarch64).
// The build gives this file its flags by its suffix; norm_simd.hpp names the namespace after them.
// Out: dlblas::baseline::norm_passes. Flow: [compile] picks the passes.  Read
// next: ops/norm/cpu/norm_simd.hpp.
#include "ops/norm/cpu/norm_simd.hpp"
