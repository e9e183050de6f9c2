// Attention's passes for AVX-512 (F, BW, VL, DQ).
// The build selects this file's compiler flags by its suffix. Out:
// dlblas::avx512::attention_passes. Flow: [compile] picks the passes.  Read next:
// ops/attention/cpu/attention_simd.hpp.
#include "ops/attention/cpu/attention_simd.hpp"
