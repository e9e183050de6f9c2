// Products of few rows with packed weights for AVX-512 (F, BW, VL, DQ).
// The file name's suffix selects its build flags. Out: dlblas::avx512::few_rows. Flow: [compile]
// picks the level.  Read next: ops/w4/few_rows_simd.hpp.
#include "ops/w4/few_rows_simd.hpp"
