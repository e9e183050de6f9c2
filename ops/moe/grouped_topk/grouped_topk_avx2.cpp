// The scores of grouped_topk for AVX2 with FMA and F16C.
// The build gives this file its flags by its suffix. Out: dlblas::avx2::grouped_topk_passes. Flow:
// [compile] picks the passes.  Read next: ops/moe/grouped_topk/grouped_topk_simd.hpp.
#include "ops/moe/grouped_topk/grouped_topk_simd.hpp"
