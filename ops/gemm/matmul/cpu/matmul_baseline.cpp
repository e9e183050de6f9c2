// matmul compiled for every CPU: 4 lanes by vector extensions (SSE2, NEON).
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: ops/gemm/matmul/cpu/matmul_simd.hpp, ops/gemm/matmul/cpu/matmul_row_simd.hpp.
#include "ops/gemm/matmul/cpu/matmul_row_simd.hpp"
#include "ops/gemm/matmul/cpu/matmul_simd.hpp"

namespace dlblas::baseline {

static constexpr gemm::MatmulTile kShapes[] = {
    kTiles[0].shape,
    kTiles[1].shape,
    kTiles[2].shape,
};
static_assert(kNumTiles == sizeof kShapes / sizeof kShapes[0]);

const gemm::MatmulLevel kMatmulLevel = {kShapes, kNumTiles, pack_b, multiply, row, pack_rows};

}  // namespace dlblas::baseline
