// The kernels of rms_norm_backward for AVX2 with FMA and F16C.
// The build gives this file its flags by its suffix. Out: dlblas::avx2::backward_passes. Flow:
// [compile] picks the passes.  Read next: ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp.
#include "ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp"
