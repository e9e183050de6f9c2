// Parameters of grouped products on WGMMA, shared by the host and NVRTC. Read next:
// wgmma_groups.cuh.
#pragma once

#include "device/gemm/groups_config.hpp"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas {

struct GroupedWgmmaCall {
  GemmWgmmaCall product;  // a, out: rows of all groups; b: the groups' matrices one below another
  GroupCall groups;
  GemmOut out;
};

/// Shared memory for the table of groups, after the ring's.
constexpr int group_table_bytes(int64_t groups) { return static_cast<int>(12 * (groups + 1)); }

}  // namespace dlblas
