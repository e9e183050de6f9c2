// Quantises rows with scales over tiles, for every CPU: no instruction-set flags (SSE2 on x86-64,
// NEON on aarch64). The build gives this file its flags by its suffix. Out:
// dlblas::baseline::quant_tiles_passes. Flow: [compile] picks the passes. Read next:
// ops/quant/tiles_simd.hpp.
#include "ops/quant/tiles_simd.hpp"
