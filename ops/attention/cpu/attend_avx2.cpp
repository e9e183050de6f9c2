// Attention over blocks of keys for AVX2 with FMA and F16C.
// The build selects this file's compiler flags by its suffix. Out: dlblas::avx2::attend_passes.
// Flow: [compile] picks the passes.  Read next: ops/attention/cpu/attend_simd.hpp.
#include "ops/attention/cpu/attend_simd.hpp"
