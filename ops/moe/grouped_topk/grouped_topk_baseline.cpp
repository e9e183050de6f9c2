// The scores of grouped_topk for every CPU: no instruction-set flags (SSE2 on x86-64, NEON on
// aarch64). The build gives this file its flags by its suffix. Out:
// dlblas::baseline::grouped_topk_passes. Flow: [compile] picks the passes.  Read next:
// ops/moe/grouped_topk/grouped_topk_simd.hpp.
#include "ops/moe/grouped_topk/grouped_topk_simd.hpp"
