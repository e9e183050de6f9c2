// The norm kernels for AVX2 with FMA and F16C.
// The build gives this file its flags by its suffix; norm_simd.hpp names the namespace after them.
// Out: dlblas::avx2::norm_passes. Flow: [compile] picks the passes.  Read next:
// ops/norm/cpu/norm_simd.hpp.
#include "ops/norm/cpu/norm_simd.hpp"
