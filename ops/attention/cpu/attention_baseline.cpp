// Attention's passes for any CPU.
// The build selects this file's compiler flags by its suffix. Out:
// dlblas::baseline::attention_passes. Flow: [compile] picks the passes.  Read next:
// ops/attention/cpu/attention_simd.hpp.
#include "ops/attention/cpu/attention_simd.hpp"
