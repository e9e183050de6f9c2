// Configurations of the WGMMA form that are worth a search, and their expected times, for products
// of rows with one weight or two, both operands contiguous along K. In: sizes, a device, a
// program's requirements on a tile. Out: rules that leave up to a few hundred points, and
// milliseconds.
// Flow: call > validate > [select].  Read next: wgmma_space.cpp, device/gemm/wgmma_config.hpp,
// docs/notes/gemm.md (the model).
#pragma once

#include <functional>

#include "core/device.hpp"
#include "core/problem.hpp"
#include "core/space.hpp"
#include "kernels/gemm_fma.hpp"
#include "kernels/gemm_wgmma.hpp"

namespace dlblas::kernels {

/// What a product requires of its tiles.
struct WgmmaTiles {
  int parts = 1;    // of b: a tile's columns are theirs, side by side
  int columns = 8;  // of a part in a tile: multiples of this
  /// The most sums per thread, where each warpgroup has its own tile and where warpgroups share
  /// one: a program's operands and functions need registers as well.
  int most_apart = 192, most_together = 192;
  int most_carried = 192;  // where K comes in spans
  int gain_bytes = 0;      // of a gain, where rows of A are normalised (device/gemm/wgmma_norm.cuh)
};

/// How configurations divide a product of [m, k] and [k, n], n columns of all parts.
class WgmmaShape {
 public:
  /// `bytes`: of all operands and the result. Only the flags of `problem` matter.
  WgmmaShape(const GemmSize& whole, double bytes, const WgmmaTiles& tiles, const Problem& problem,
             const DeviceInfo& device);

  /// GemmTraits::span of a configuration.
  std::int32_t span(const GemmWgmmaConfig& c) const;
  double milliseconds(const GemmWgmmaConfig& c) const;
  /// Adds the rules, which hold a copy of this.
  void constrain(Space& space) const;

 private:
  using C = GemmWgmmaConfig;
  std::int64_t m_, n_, k_;
  double bytes_;
  WgmmaTiles tile_;
  bool same_bits_;
  DeviceInfo device_;

  std::int64_t tiles_m(const C& c) const;
  std::int64_t tiles_n(const C& c) const;
  std::int64_t tiles(const C& c) const { return tiles_m(c) * tiles_n(c); }
  std::int64_t blocks(const C& c) const;
  std::int64_t chain(const C& c) const;
  std::int64_t waves(const C& c) const;

  // Constraints: each reads only the knobs that it names.
  bool is_offered(const C& c) const { return !c.swapped && !c.stream; }
  bool tile_is_the_blocks_only(const C& c) const;
  bool block_m_wastes_little(const C& c) const;
  bool block_n_wastes_little(const C& c) const;
  bool tile_is_large(const C& c) const;
  bool depth_suits_tile(const C& c) const;
  bool warpgroups_suit_tile(const C& c) const;
  bool pingpong_has_a_next(const C& c) const;
  bool cluster_is_useful(const C& c) const;
  bool device_is_filled(const C& c) const;
  bool exists(const C& c) const;
  bool ring_is_deep(const C& c) const;
  bool weight_leaves_first(const C& c) const;
  bool group_matters(const C& c) const;

  double rows_copied(const C& c) const;
  double step_seconds(const C& c, double crowd) const;
  double product_seconds(const C& c) const;
  double memory_seconds(const C& c) const;
  double scaling_seconds(const C& c) const;
};

/// GemmTraits::span on tensor cores, as matmul's: spans only where a chain of K is long.
std::int32_t tensor_core_span(std::int64_t chain);

}  // namespace dlblas::kernels
