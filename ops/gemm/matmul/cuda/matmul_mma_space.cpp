// Which configurations of the tensor-core matmul exist, and which are worth searching for a problem
// and a device; see matmul_mma_space.hpp. Tiles need not be powers of two: what counts is that the
// last wave of blocks is nearly full (192 × 176 gives 4096 × 2112 exactly two blocks for each of
// 132 multiprocessors). Read next: matmul_gpu_config.hpp (valid), matmul_mma_cuda.cpp (the model).
#include "ops/gemm/matmul/cuda/matmul_mma_space.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

constexpr int kSmallestM = 16, kSmallestN = 32;
/// Per warp: 64 × 64 sums and their pairs on the way to shared memory spill on sm_90.
constexpr int kMaxCarriedSums = 3072;
constexpr int kWarps[] = {1, 2, 4};  // along either side of a block

/// A tile's rows of 16-byte chunks divide evenly among the block's threads.
bool copies_divide(const GemmMmaConfig& c, const GemmTraits& s) {
  const auto divides = [&](bool by_depth, int outer, int warp_outer) {
    const int chunks = (by_depth ? c.block_k : outer) / 8;
    const bool power = (chunks & (chunks - 1)) == 0 && (warp_outer & (warp_outer - 1)) == 0;
    return c.threads() % chunks == 0 && (by_depth || power);
  };
  return divides(s.a_by_depth, c.block_m, c.warp_m()) &&
         divides(s.b_by_depth, c.block_n, c.warp_n());
}

bool exists(const GemmMmaConfig& c, const GemmTraits& s) { return valid(c) && copies_divide(c, s); }

/// Each function is one constraint and reads only the knobs that its constraint names.
struct Rules {
  std::int64_t m, n, k;
  bool one_part;  // `deterministic`: no batch size may change a bit
  bool carries;   // a tile whose blocks fill the device, K in one part
  GemmTraits traits;
  DeviceInfo device;
  Problem problem;

  Rules(const Problem& p, const DeviceInfo& on)
      : m(p.dims[kM]),
        n(p.dims[kN]),
        k(p.dims[kK]),
        one_part(p.flags & kDeterministic),
        carries(tensor_core_span(p, p.dims[kK], false) > 0),
        traits(matmul_traits(p).gemm),
        device(on),
        problem(p) {}

  std::int64_t blocks(const GemmMmaConfig& c) const {
    return ceil_div(m, c.block_m) * ceil_div(n, c.block_n);
  }
  bool fits(const GemmMmaConfig& c) const {
    return c.shared_bytes(mma_span(problem, c, device)) <= device.shared_bytes_per_block;
  }

  /// Computes at most half more than the smallest blocks would.
  bool block_m_wastes_little(const GemmMmaConfig& c) const {
    return 2 * round_up(m, c.block_m) <= 3 * round_up(m, kSmallestM);
  }
  bool block_n_wastes_little(const GemmMmaConfig& c) const {
    return 2 * round_up(n, c.block_n) <= 3 * round_up(n, kSmallestN);
  }

  /// Larger and squarer tiles read less. Excludes tiles below half of a multiprocessor's share,
  /// unless they reach 12,288 sums or a quarter of what the matrix allows, and tiles three times as
  /// long as wide where squarer ones are possible.
  bool tile_is_large(const GemmMmaConfig& c) const {
    const double area = 1.0 * c.block_m * c.block_n;
    const double share = static_cast<double>(m) * static_cast<double>(n) / device.units;
    const auto reach = static_cast<double>(std::min<std::int64_t>(round_up(m, kSmallestM), 256) *
                                           std::min<std::int64_t>(round_up(n, kSmallestN), 256));
    const bool narrow = (c.block_n >= 3 * c.block_m && c.block_m * 3 <= m) ||
                        (c.block_m >= 3 * c.block_n && c.block_n * 3 <= n);
    // Tiles whose carried sums take a quarter of shared memory still leave room for their rings.
    const double most = carries ? std::min(12288.0, device.shared_bytes_per_block / 32.0) : 12288.0;
    return area >= std::min({share / 2, reach / 4, most}) && !narrow;
  }

  /// 32 where three stages of 64 do not fit; 128 where tiles are so small that barriers matter (and
  /// that, on sm_80, registers hold the carried sums, too).
  bool depth_suits_tile(const GemmMmaConfig& c) const {
    if (c.block_k == 32) {
      return 3 * (c.block_m + c.block_n) * 128 > device.shared_bytes_per_block;
    }
    return c.block_k == 64 || (c.block_m <= 64 && c.block_m * c.block_n <= (carries ? 4096 : 8192));
  }

  /// Among arrangements of the same number of warps, the squarest loads least from shared memory.
  bool warps_are_square(const GemmMmaConfig& c) const {
    if (!exists(c, traits)) return false;
    for (GemmMmaConfig o = c; const int warps_m : kWarps) {
      o.warps_m = warps_m, o.warps_n = c.warps_m * c.warps_n / warps_m;
      if (o.warps_m * o.warps_n != c.warps_m * c.warps_n || o.warps_n > 4 || !exists(o, traits)) {
        continue;
      }
      const int ours = c.warp_m() + c.warp_n(), theirs = o.warp_m() + o.warp_n();
      if (theirs < ours || (theirs == ours && o.warps_m > c.warps_m)) return false;
    }
    return true;
  }
  /// Four warps; eight if each has 1,024 sums, or where four have too many to carry; two where the
  /// tile has no room for four.
  bool warps_suit_tile(const GemmMmaConfig& c) const {
    const int warps = c.warps_m * c.warps_n;
    if (c.warp_m() * c.warp_n() > kMaxCarriedSums && mma_span(problem, c, device) > 0) return false;
    if (warps != 2) return warps == 4 || c.block_m * c.block_n >= 8 * 1024;
    return std::none_of(std::begin(kWarps), std::end(kWarps), [&](int warps_m) {
      GemmMmaConfig o = c;
      o.warps_m = warps_m, o.warps_n = 4 / warps_m;
      return exists(o, traits);
    });
  }

  /// The order of blocks matters with several waves and enough rows of blocks to make bands.
  bool group_matters(const GemmMmaConfig& c) const {
    const bool matters = ceil_div(m, c.block_m) > 4 &&
                         blocks(c) > std::int64_t{device.units} * blocks_a_unit(c, problem, device);
    return (c.group_m > 1) == matters;
  }

  /// Splitting K pays where blocks do not fill the device and each part keeps a few tiles.
  bool split_is_useful(const GemmMmaConfig& c) const {
    if (c.split_k == 1) return true;
    return !one_part && blocks(c) < device.units && blocks(c) * c.split_k <= 2 * device.units &&
           k >= std::int64_t{4} * c.block_k * c.split_k;
  }
  bool device_is_filled(const GemmMmaConfig& c) const {
    return c.block_m * c.block_n <= kSmallestM * kSmallestN ||
           4 * blocks(c) * c.split_k >= 3 * device.units;
  }

  /// At least three stages, and as many as still allow the blocks per multiprocessor that the grid
  /// has. Small tiles need no more than 48 KiB in flight: from there on, every depth is searched.
  bool ring_is_deepest(const GemmMmaConfig& c) const {
    const std::int64_t tiles = ceil_div(ceil_div(k, c.block_k), c.split_k);
    const std::int64_t wanted = ceil_div(blocks(c) * c.split_k, device.units);
    const auto side_by_side = [&](const GemmMmaConfig& o) {
      return std::min<std::int64_t>(wanted, blocks_a_unit(o, problem, device));
    };
    GemmMmaConfig o = c;
    o.stages = 3;
    if (c.stages < 3) return !fits(o);
    if (c.stages > 3 && c.stages > tiles) return false;
    if (c.block_m * c.block_n <= 2048 && c.ring_bytes() >= 48 << 10) return true;
    for (const std::int64_t stages : mma_table().values("stages")) {
      o.stages = static_cast<std::int32_t>(stages);
      const bool deeper = o.stages > c.stages && o.stages <= tiles && fits(o);
      if (deeper && side_by_side(o) == side_by_side(c)) return false;
    }
    return true;
  }
};

}  // namespace

const ConfigTable<GemmMmaConfig>& mma_table() {
  using C = GemmMmaConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::block_m>("block_m", {16, 32, 64, 96, 128, 192, 256}),
      field<&C::block_n>("block_n", {32, 64, 96, 128, 176, 192, 256}),
      field<&C::block_k>("block_k", {32, 64, 128}),
      field<&C::stages>("stages", {2, 3, 4, 6, 8}),
      field<&C::warps_m>("warps_m", {1, 2, 4}),
      field<&C::warps_n>("warps_n", {1, 2, 4}),
      field<&C::group_m>("group_m", {1, 4, 16}),
      field<&C::split_k>("split_k", {1, 2, 4, 8}),
  };
  return *t;
}

std::int32_t mma_span(const Problem& p, const GemmMmaConfig& c, const DeviceInfo& device) {
  const std::int64_t blocks =
      ceil_div(p.dims[kM], c.block_m) * ceil_div(p.dims[kN], c.block_n) * c.split_k;
  const bool is_cheap = 2 * blocks < device.units;
  return tensor_core_span(p, ceil_div(p.dims[kK], c.split_k), is_cheap);
}

int blocks_a_unit(const GemmMmaConfig& c, const Problem& p, const DeviceInfo& device) {
  // The sums, two sets of fragments, and 40 more.
  const int registers = c.warp_m() * c.warp_n() / 32 + (c.warp_m() + c.warp_n()) / 2 + 40;
  return std::clamp<int>(
      device.shared_bytes_per_unit / (c.shared_bytes(mma_span(p, c, device)) + 1024), 1,
      std::max(1, 65536 / (c.threads() * registers)));
}

void constrain_mma(const Problem& p, const DeviceInfo& device, Space& space) {
  const auto rules = std::make_shared<const Rules>(p, device);
  using Names = std::vector<std::string_view>;
  const auto require = [&](const char* name, const Names& knobs,
                           bool (Rules::*rule)(const GemmMmaConfig&) const) {
    space.require(mma_table(), name, knobs,
                  [rules, rule](const GemmMmaConfig& c) { return (*rules.*rule)(c); });
  };
  const Names block = {"block_m", "block_n", "block_k", "stages", "warps_m", "warps_n"};
  Names whole = block;
  whole.push_back("split_k");
  Names grouped = whole;
  grouped.push_back("group_m");
  require("block_m_wastes_little", {"block_m"}, &Rules::block_m_wastes_little);
  require("block_n_wastes_little", {"block_n"}, &Rules::block_n_wastes_little);
  require("tile_is_large", {"block_m", "block_n"}, &Rules::tile_is_large);
  require("depth_suits_tile", {"block_m", "block_n", "block_k"}, &Rules::depth_suits_tile);
  require("warps_are_square", block, &Rules::warps_are_square);
  require("warps_suit_tile", whole, &Rules::warps_suit_tile);
  require("shared_memory_fits", whole, &Rules::fits);
  require("group_matters", grouped, &Rules::group_matters);
  require("split_is_useful", {"block_m", "block_n", "block_k", "split_k"}, &Rules::split_is_useful);
  require("device_is_filled", {"block_m", "block_n", "split_k"}, &Rules::device_is_filled);
  require("ring_is_deepest", whole, &Rules::ring_is_deepest);
}

}  // namespace dlblas::gemm
