// A scaled product over some terms of a longer sum: the rows of a group, for grouped_gemm_k_block.
// Blocks of kGroup terms begin where those of the whole sum do, so the first may be cut short, and
// every block has one scale per row of a and one per column of b.
// Read next: scaled_simd.hpp, ops/gemm/grouped_block/grouped_block_cpu.cpp.
#pragma once

#include "ops/gemm/scaled/scaled_config.hpp"

namespace dlblas::gemm::scaled {

/// a and b begin at the first term; a_scale[m, g] and b_scale[g, n], at the block that has it.
struct DepthJob : ScaledJob {
  int64_t skipped;  // terms of the first block that come before; 0 if there are no terms
};

}  // namespace dlblas::gemm::scaled

// Take a DepthJob, whose `blocks` is set.
namespace dlblas::baseline {
extern const gemm::scaled::ScaledRun kScaledDepthRun;
}
namespace dlblas::avx2 {
extern const gemm::scaled::ScaledRun kScaledDepthRun;
}
namespace dlblas::avx512 {
extern const gemm::scaled::ScaledRun kScaledDepthRun;
}
