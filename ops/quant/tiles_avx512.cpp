// Quantises rows with scales over tiles, for AVX-512 (F, BW, VL, DQ).
// The build gives this file its flags by its suffix. Out: dlblas::avx512::quant_tiles_passes. Flow:
// [compile] picks the passes.  Read next: ops/quant/tiles_simd.hpp.
#include "ops/quant/tiles_simd.hpp"
