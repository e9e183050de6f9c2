// What the WGMMA forms of grouped products share on the host: the kernel's requirements on sizes
// and rows, and a call. In: a call's products as strided matrices. Out: the launch.
// Read next: grouped_wgmma_cuda.cpp, ops/gemm/grouped_block/grouped_block_wgmma_cuda.cpp.
#pragma once

#include <functional>

#include "device/gemm/wgmma_groups_config.hpp"
#include "ops/gemm/grouped/grouped_cuda.hpp"

namespace dlblas::gemm {

/// Requires sizes in range, one pitch for the rows of a and of the result, and no more groups than
/// the table holds.
Support supports_grouped_wgmma(const GroupedOp& op, const Problem& problem);
/// The same without the rows of a.
Support supports_grouped_result(const GroupedOp& op, const Problem& problem);

/// What a kernel was compiled for, and how it is launched.
struct GroupedWgmmaForm {
  const GemmWgmmaConfig* tile;
  DType type, out_type;  // of the elements that the copy engine sees
  bool a_by_depth, b_by_depth;
  std::int32_t units, shared_bytes;
  bool dependent;
};

/// Runs one call; returns 0 or the driver's error code. A reversed or overlapping view has the
/// layout class of a plain one, so a copy stands in for it. `finish` may add operands.
int multiply_groups(const GroupedOp& op, const Args& args, const GroupedProduct& p,
                    const GroupedWgmmaForm& form, const Context& context,
                    const cuda::Function& kernel,
                    const std::function<void(GroupedWgmmaCall&)>& finish);

/// The estimate for average groups: each multiprocessor runs tile after tile at `part` of `flops`,
/// `turn` seconds longer each, and `once` per call; copies come from L2; all weights cross memory
/// once.
struct GroupedTileTime {
  double part, flops, bytes;  // of an element of K of a row
  double turn, once;          // what a tile's end costs, and what comes once
  double stage = 0;           // at least, where threads copy rows
};
double grouped_wgmma_ms(const Query& q, const GroupedOp& op, const GemmWgmmaConfig& tile,
                        const GroupedTileTime& time);

}  // namespace dlblas::gemm
