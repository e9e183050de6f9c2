// Rows of 4-bit weights for AVX2 with FMA and F16C.
// The file name's suffix selects its build flags. Out: dlblas::avx2::w4_row. Flow: [compile]
// picks the level.  Read next: ops/w4/dequantize_simd.hpp.
#include "ops/w4/dequantize_simd.hpp"
