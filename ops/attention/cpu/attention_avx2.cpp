// Attention's passes for AVX2 with FMA and F16C.
// The build selects this file's compiler flags by its suffix. Out: dlblas::avx2::attention_passes.
// Flow: [compile] picks the passes.  Read next: ops/attention/cpu/attention_simd.hpp.
#include "ops/attention/cpu/attention_simd.hpp"
