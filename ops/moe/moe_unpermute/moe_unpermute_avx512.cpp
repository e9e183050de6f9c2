// Columns of moe_unpermute for AVX-512 (F, BW, VL, DQ).
// The build gives this file its flags by its suffix. Out: dlblas::avx512::moe_unpermute_passes.
// Flow: [compile] picks the passes.  Read next: moe_unpermute_simd.hpp.
#include "ops/moe/moe_unpermute/moe_unpermute_simd.hpp"
