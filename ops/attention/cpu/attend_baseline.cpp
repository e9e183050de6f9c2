// Attention over blocks of keys, for every CPU.
// The build selects this file's compiler flags by its suffix. Out: dlblas::baseline::attend_passes.
// Flow: [compile] picks the passes.  Read next: ops/attention/cpu/attend_simd.hpp.
#include "ops/attention/cpu/attend_simd.hpp"
