// The tiles of the WGMMA form of grouped products. Read next: grouped_wgmma.cuh.
#pragma once

#include "device/gemm/wgmma_groups_config.hpp"
#include "ops/gemm/grouped/grouped_config.hpp"

namespace dlblas::gemm {

inline constexpr GemmWgmmaConfig kGroupedWgmmaTiles[] = {
    {false, 128, 256, 64, 2, false, GemmShare::kNone, 1, 3, false, 8},
    {false, 128, 128, 64, 2, true, GemmShare::kNone, 1, 5, false, 8},
    {false, 64, 256, 64, 2, true, GemmShare::kNone, 1, 4, false, 8},
    {false, 64, 128, 64, 2, true, GemmShare::kNone, 1, 6, false, 8},
    {false, 64, 128, 128, 2, true, GemmShare::kNone, 1, 3, false, 8},
    {false, 128, 192, 64, 2, false, GemmShare::kNone, 1, 4, false, 8},
    {false, 128, 128, 64, 2, false, GemmShare::kNone, 1, 5, false, 8},
};
inline constexpr int kGroupedWgmmaCount = sizeof kGroupedWgmmaTiles / sizeof kGroupedWgmmaTiles[0];

}  // namespace dlblas::gemm
