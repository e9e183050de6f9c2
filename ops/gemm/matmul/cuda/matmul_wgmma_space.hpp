// The configurations of the WGMMA matmul that are worth searching.
// In: a Problem and a device. Out: knobs, and rules that leave up to a few hundred configurations.
// Flow: [select] of matmul_wgmma_cuda.cpp.  Read next: matmul_wgmma_space.cpp, core/space.hpp.
#pragma once

#include "core/device.hpp"
#include "core/problem.hpp"
#include "core/space.hpp"
#include "device/gemm/wgmma_config.hpp"
#include "kernels/gemm_wgmma.hpp"

namespace dlblas::gemm {

using kernels::wgmma_table;

void constrain_wgmma(const Problem& p, const DeviceInfo& device, Space& space);

/// How a configuration divides a problem.
struct WgmmaGrid {
  std::int64_t tiles_m, tiles_n;  // of D as the kernel sees it
  std::int64_t blocks;            // that there is work for, of whole clusters
  std::int64_t chain;             // terms of K of one block

  WgmmaGrid(const Problem& p, const GemmWgmmaConfig& c);
  /// Tiles that the fullest multiprocessor computes one after the other.
  std::int64_t waves(const GemmWgmmaConfig& c, const DeviceInfo& device) const;
  /// Of a configuration with stream-K.
  GemmStreamPlan stream(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) const;
};

/// The estimated seconds that the tiles of a configuration without stream-K take, whatever memory
/// takes.
double wgmma_product_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device);

/// GemmTraits::span of a configuration.
std::int32_t wgmma_span(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device);
/// True if the kernel's B is contiguous along K.
bool wgmma_b_by_depth(const Problem& p, const GemmWgmmaConfig& c);

}  // namespace dlblas::gemm
