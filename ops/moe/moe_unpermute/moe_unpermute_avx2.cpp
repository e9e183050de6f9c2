// Columns of moe_unpermute for AVX2 with FMA and F16C.
// The build gives this file its flags by its suffix. Out: dlblas::avx2::moe_unpermute_passes. Flow:
// [compile] picks the passes.  Read next: moe_unpermute_simd.hpp.
#include "ops/moe/moe_unpermute/moe_unpermute_simd.hpp"
