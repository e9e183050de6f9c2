// The scores of grouped_topk for AVX-512 (F, BW, VL, DQ).
// The build gives this file its flags by its suffix. Out: dlblas::avx512::grouped_topk_passes.
// Flow: [compile] picks the passes.  Read next: ops/moe/grouped_topk/grouped_topk_simd.hpp.
#include "ops/moe/grouped_topk/grouped_topk_simd.hpp"
