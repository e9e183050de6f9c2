// Rows of 4-bit weights for AVX-512.
// The file name's suffix selects its build flags. Out: dlblas::avx512::w4_row. Flow: [compile]
// picks the level.  Read next: ops/w4/dequantize_simd.hpp.
#include "ops/w4/dequantize_simd.hpp"
