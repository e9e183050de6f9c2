// The tiles of the WGMMA form of grouped products of e4m3. block_k counts pairs of codes.
// Read next: grouped_block_wgmma.cuh.
#pragma once

#include "device/gemm/wgmma_groups_config.hpp"
#include "ops/gemm/grouped_block/grouped_block_config.hpp"

namespace dlblas::gemm {

/// The second is the first with one stage less: room for a table of many groups.
inline constexpr GemmWgmmaConfig kGroupedBlockWgmmaTiles[] = {
    {false, 128, 128, 64, 2, false, GemmShare::kNone, 1, 6, false, 8},
    {false, 128, 128, 64, 2, false, GemmShare::kNone, 1, 5, false, 8},
    {false, 128, 192, 64, 2, false, GemmShare::kNone, 1, 4, false, 8},
    {false, 64, 128, 64, 1, false, GemmShare::kNone, 1, 8, false, 8},
    {false, 64, 64, 64, 1, false, GemmShare::kNone, 1, 8, false, 8},
};
inline constexpr int kGroupedBlockWgmmaCount =
    sizeof kGroupedBlockWgmmaTiles / sizeof kGroupedBlockWgmmaTiles[0];

}  // namespace dlblas::gemm
