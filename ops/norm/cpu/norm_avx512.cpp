// The norm kernels for AVX-512 F, BW, VL and DQ.
// The build gives this file its flags by its suffix; norm_simd.hpp names the namespace after them.
// Out: dlblas::avx512::norm_passes. Flow: [compile] picks the passes.  Read
// next: ops/norm/cpu/norm_simd.hpp.
#include "ops/norm/cpu/norm_simd.hpp"
