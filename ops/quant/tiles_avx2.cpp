// Quantises rows with scales over tiles, for AVX2 with FMA and F16C.
// The build gives this file its flags by its suffix. Out: dlblas::avx2::quant_tiles_passes. Flow:
// [compile] picks the passes.  Read next: ops/quant/tiles_simd.hpp.
#include "ops/quant/tiles_simd.hpp"
