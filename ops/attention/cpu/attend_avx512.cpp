// Attention over blocks of keys for AVX-512 (F, BW, VL, DQ).
// The build selects this file's compiler flags by its suffix. Out: dlblas::avx512::attend_passes.
// Flow: [compile] picks the passes.  Read next: ops/attention/cpu/attend_simd.hpp.
#include "ops/attention/cpu/attend_simd.hpp"
