// matmul compiled for AVX2 with FMA and F16C: 8 lanes, 16 registers.
// Everything but the table below has internal linkage: see cpu/simd.hpp for why.
// Read next: ops/gemm/matmul/cpu/matmul_simd.hpp, ops/gemm/matmul/cpu/matmul_row_simd.hpp.
#include "ops/gemm/matmul/cpu/matmul_row_simd.hpp"
#include "ops/gemm/matmul/cpu/matmul_simd.hpp"

namespace dlblas::avx2 {

static constexpr gemm::MatmulTile kShapes[] = {
    kTiles[0].shape,
    kTiles[1].shape,
    kTiles[2].shape,
    kTiles[3].shape,
};
static_assert(kNumTiles == sizeof kShapes / sizeof kShapes[0]);

const gemm::MatmulLevel kMatmulLevel = {kShapes, kNumTiles, pack_b, multiply, row, pack_rows};

}  // namespace dlblas::avx2
