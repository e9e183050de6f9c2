// Parameters of grouped products on WGMMA, shared by the host and NVRTC. Read next:
// wgmma_groups.cuh.
#pragma once

#include "device/gemm/groups_config.hpp"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas {

struct GroupedWgmmaCall {
  // a (no map if gathered), out: rows of all groups; b: the groups' matrices one below another
  GemmWgmmaCall product;
  GroupCall groups;
  GemmOut out;
};

/// Gathered rows: where a call has A, as {data, elements from row to row}; and what arrives at a
/// stage, each of 128 copying threads and the one that announces B's bytes.
inline constexpr int32_t kGroupGatheredA = 0, kGatherArrivals = 129;

/// Shared memory for the table of groups, after the ring's.
constexpr int group_table_bytes(int64_t groups) { return static_cast<int>(12 * (groups + 1)); }

}  // namespace dlblas
