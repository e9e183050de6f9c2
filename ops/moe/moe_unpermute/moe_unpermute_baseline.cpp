// Columns of moe_unpermute for every CPU: SSE2 on x86-64, NEON on aarch64.
// The build gives this file its flags by its suffix. Out: dlblas::baseline::moe_unpermute_passes.
// Flow: [compile] picks the passes.  Read next: moe_unpermute_simd.hpp.
#include "ops/moe/moe_unpermute/moe_unpermute_simd.hpp"
