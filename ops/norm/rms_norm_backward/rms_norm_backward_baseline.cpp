// The kernels of rms_norm_backward for every CPU: no instruction-set flags (SSE2 on x86-64, NEON on
// aarch64). The build gives this file its flags by its suffix. Out:
// dlblas::baseline::backward_passes. Flow: [compile] picks the passes.  Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp.
#include "ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp"
