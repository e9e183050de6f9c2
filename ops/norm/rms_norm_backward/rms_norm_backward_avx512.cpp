// The kernels of rms_norm_backward for AVX-512 (F, BW, VL, DQ).
// The build gives this file its flags by its suffix. Out: dlblas::avx512::backward_passes. Flow:
// [compile] picks the passes.  Read next: ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp.
#include "ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp"
