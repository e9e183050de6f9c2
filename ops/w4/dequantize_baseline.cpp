// Rows of 4-bit weights for every CPU.
// The build gives this file its flags by its suffix. Out: dlblas::baseline::w4_row. Flow: [compile]
// picks the level.  Read next: ops/w4/dequantize_simd.hpp.
#include "ops/w4/dequantize_simd.hpp"
