// Which configurations of the WGMMA matmul exist, and which are worth searching for a problem and a
// device; see matmul_wgmma_space.hpp. They include every winner of the measurements in
// docs/notes/gemm.md. Read next: device/gemm/wgmma_config.hpp (valid), matmul_wgmma_cuda.cpp (the
// model).
#include "ops/gemm/matmul/cuda/matmul_wgmma_space.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

/// Each function is one constraint and reads only the knobs that its constraint names.
struct Rules {
  std::int64_t m, n, k;
  bool one_part;  // `deterministic`: no batch size may change a bit
  MatmulTraits traits;
  DeviceInfo device;
  Problem problem;

  Rules(const Problem& p, const DeviceInfo& on)
      : m(std::max<std::int64_t>(1, p.dims[kM])),
        n(std::max<std::int64_t>(1, p.dims[kN])),
        k(std::max<std::int64_t>(1, p.dims[kK])),
        one_part(p.flags & kDeterministic),
        traits(matmul_traits(p)),
        device(on),
        problem(p) {}

  std::int64_t rows(const GemmWgmmaConfig& c) const { return c.swapped ? n : m; }
  std::int64_t columns(const GemmWgmmaConfig& c) const { return c.swapped ? m : n; }
  std::int64_t tiles(const GemmWgmmaConfig& c) const {
    return ceil_div(rows(c), c.block_m) * ceil_div(columns(c), c.block_n);
  }

  /// For few rows of a; or for tiles of 128 and more rows of b in few waves, where a width that
  /// divides the rows of a fills the last wave. stmatrix must be able to transpose the result.
  bool swap_is_useful(const GemmWgmmaConfig& c) const {
    if (!c.swapped) return true;
    if (size_of(traits.epilogue.out) != 2) return false;
    return m <= 256 || (c.block_m >= 128 && n % 64 == 0 && tiles(c) <= 4 * device.units);
  }
  /// Excludes rows of tiles that are mostly empty, except with the smallest tile.
  bool block_m_wastes_little(const GemmWgmmaConfig& c) const {
    return c.block_m == 64 || 4 * round_up(rows(c), c.block_m) <= 5 * round_up(rows(c), 64);
  }
  /// Wastes an eighth at most, or is the narrowest tile that holds all columns; swapped, the
  /// narrowest for the same number of tiles. For up to 256 rows of a that number is the one at 128
  /// rows per tile, since b is read again for each. Along N a box is 64 wide: only whole boxes, and
  /// one box always. A width that is not a multiple of 16 is stored in narrow pieces: only for few
  /// columns, or swapped, where a piece is 8 rows of 128 bytes.
  bool block_n_wastes_little(const GemmWgmmaConfig& c) const {
    const bool by_depth = wgmma_b_by_depth(problem, c);
    if (!by_depth && c.block_n % 64 != 0) return false;
    if (!c.swapped && c.block_n % 16 != 0 && c.block_n > 24) return false;
    const std::int64_t all = columns(c), covered = round_up(all, c.block_n);
    const std::int64_t across = m <= 256 ? ceil_div(all, 128) : covered / c.block_n;
    const std::int64_t wanted = c.swapped ? ceil_div(all, across) : all;
    if (!c.swapped && (8 * covered <= 9 * all || (!by_depth && c.block_n == 64))) return true;
    if (c.block_n < wanted) return false;
    for (const std::int64_t narrower : wgmma_table().values("block_n"))
      if (narrower >= wanted && narrower < c.block_n &&
          (by_depth ? c.swapped || narrower % 16 == 0 || narrower <= 24 : narrower % 64 == 0))
        return false;
    return true;
  }
  /// Larger tiles read less. Excludes tiles below half of a multiprocessor's share, unless they
  /// reach 128 × 96, or 128 × 64 where K is so long that carried sums take shared memory.
  bool tile_is_large(const GemmWgmmaConfig& c) const {
    const double share = static_cast<double>(m) * static_cast<double>(n) / device.units;
    const bool covers = c.block_n >= columns(c);
    const double most = tensor_core_span(problem, k, false) > 0 ? 128 * 64 : 128 * 96;
    return covers || c.block_m * c.block_n >= std::min(share / 2, most);
  }
  /// Small tiles take more of K at a time, since barriers matter there; large ones, more stages.
  bool depth_suits_tile(const GemmWgmmaConfig& c) const {
    const int sides = c.block_m + c.block_n;
    if (c.block_k > 64 && c.block_k > round_up(k, 64)) return false;
    if (c.block_k == 256) return sides <= 96;
    if (c.block_k == 128) return sides <= 192;
    return sides > 96 || k <= 64;
  }
  /// One warpgroup multiplies 64 rows, two 128 or 256, three 192. Ping-pong with tiles of 64 rows
  /// lost 10 %.
  bool warpgroups_suit_tile(const GemmWgmmaConfig& c) const {
    return c.warpgroups == (c.block_m == 64    ? 1
                            : c.block_m == 192 ? 3
                                               : 2) &&
           (!c.pingpong || c.block_m == 128);
  }
  /// One warpgroup stores while the other multiplies: useful only where there is a next tile.
  bool pingpong_has_a_next(const GemmWgmmaConfig& c) const {
    return !c.pingpong || tiles(c) > device.units;
  }
  /// A bias and a function beside 192 sums spilled, as they did beside 96 with three warpgroups;
  /// with 256 rows gelu alone did.
  bool registers_suffice(const GemmWgmmaConfig& c) const {
    const MatmulEpilogueTraits& e = traits.epilogue;
    const bool function = e.activation == Activation::kGelu || e.activation == Activation::kSilu;
    const bool more = function && (e.has_bias || c.block_m == 256);
    const int most = c.warpgroups == 3 ? (more ? 88 : 96) : (more ? 176 : 192);
    return c.block_m / 64 / (c.pingpong ? 1 : c.warpgroups) * c.block_n / 2 <= most;
  }
  /// Multicast costs a microsecond. It pays with several waves, or where every multiprocessor reads
  /// the whole of an a of some rows; only 30 clusters of four blocks fit. Splitting K fills a
  /// device that tiles do not, and each part keeps a few stages.
  bool cluster_is_useful(const GemmWgmmaConfig& c) const {
    if ((c.share == GemmShare::kNone) != (c.cluster == 1)) return false;
    if (c.share == GemmShare::kNone) return true;
    if (c.share == GemmShare::kK)
      return !one_part && !c.pingpong && tiles(c) * c.cluster <= device.units &&
             k >= std::int64_t{4} * c.block_k * c.cluster;
    const std::int64_t neighbours =
        c.share == GemmShare::kA ? ceil_div(columns(c), c.block_n) : ceil_div(rows(c), c.block_m);
    if (c.cluster != 2 || neighbours < 2) return false;
    if (c.swapped && c.block_m == 64)
      return c.share == GemmShare::kB && m > 64 && tiles(c) <= device.units;
    return c.block_m >= 128 && tiles(c) > device.units;
  }
  /// Stream-K serves large tiles in a few waves of which the last is not full, or fewer tiles than
  /// multiprocessors; a part of K has eight stages at least, which are some µs. Widths that are odd
  /// multiples of 16 are for filling waves.
  bool stream_is_useful(const GemmWgmmaConfig& c) const {
    if (!c.stream) return true;
    constexpr std::int64_t kMaxWaves = 8, kPart = 8;
    if (one_part || c.share == GemmShare::kK || c.group_m != 8) return false;
    if (c.block_m < 128 || c.block_n < 128 || c.block_n % 32 != 0) return false;
    const std::int64_t units = WgmmaGrid(problem, c).blocks / c.cluster,
                       at_once = std::max(1, device.units / c.cluster),
                       stages = ceil_div(k, c.block_k);
    if (stages > kGemmMaxStages) return false;
    if (units < at_once) return 5 * units <= 4 * at_once && units * stages >= kPart * at_once;
    const std::int64_t waves = ceil_div(units, at_once);
    return waves <= kMaxWaves && 20 * units <= 19 * waves * at_once && stages >= 2 * kPart;
  }
  /// At least three blocks per five multiprocessors, or the smallest tiles.
  bool device_is_filled(const GemmWgmmaConfig& c) const {
    if (c.stream) return 4 * tiles(c) >= device.units;
    if (c.block_m == 64 && (c.swapped || c.block_n <= 64)) return true;
    return 5 * tiles(c) * (c.share == GemmShare::kK ? c.cluster : 1) >= 3 * device.units;
  }
  bool exists(const GemmWgmmaConfig& c) const {
    return valid(c) && !(c.pingpong && wgmma_span(problem, c, device) > 0) &&
           c.shared_bytes(wgmma_b_by_depth(problem, c), wgmma_span(problem, c, device)) <=
               device.shared_bytes_per_block;
  }
  /// The deepest ring that fits, or, with whole tiles, one stage less; no deeper than a block's
  /// work.
  bool ring_is_deep(const GemmWgmmaConfig& c) const {
    const WgmmaGrid grid(problem, c);
    const std::int64_t work = ceil_div(grid.chain, c.block_k) * grid.waves(c, device);
    GemmWgmmaConfig o = c;
    std::int32_t deepest = 2;
    for (const std::int64_t stages : wgmma_table().values("stages")) {
      o.stages = static_cast<std::int32_t>(stages);
      if (stages <= work && exists(o)) deepest = std::max(deepest, o.stages);
    }
    return c.stages == deepest || (!c.stream && c.stages == deepest - 1 && c.stages >= 3);
  }
  bool weight_leaves_first(const GemmWgmmaConfig& c) const {
    return c.weight_once == (ceil_div(m, c.swapped ? c.block_n : c.block_m) == 1);
  }
  /// The order of tiles matters with several waves and many rows of tiles.
  bool group_matters(const GemmWgmmaConfig& c) const {
    const bool matters = ceil_div(rows(c), c.block_m) > 8 && tiles(c) > device.units;
    return c.group_m == 8 || (matters && c.group_m == 16);
  }
};

}  // namespace

WgmmaGrid::WgmmaGrid(const Problem& p, const GemmWgmmaConfig& c)
    : tiles_m(std::max<std::int64_t>(1, ceil_div(p.dims[c.swapped ? kN : kM], c.block_m))),
      tiles_n(std::max<std::int64_t>(1, ceil_div(p.dims[c.swapped ? kM : kN], c.block_n))),
      blocks((c.share == GemmShare::kB ? round_up(tiles_m, c.cluster) : tiles_m) *
             (c.share == GemmShare::kA ? round_up(tiles_n, c.cluster) : tiles_n)),
      chain(p.dims[kK]) {
  if (c.share == GemmShare::kK) {
    blocks *= c.cluster;
    chain = round_up(ceil_div(p.dims[kK], c.cluster), c.block_k);
  }
}

std::int64_t WgmmaGrid::waves(const GemmWgmmaConfig& c, const DeviceInfo& device) const {
  // Clusters of four leave the units of a GPC beyond a multiple of four idle: 120 of an H200's 132
  // work.
  const std::int64_t units = c.cluster == 4 ? device.units * 10 / 11 : device.units;
  return ceil_div(blocks, std::max<std::int64_t>(1, units / c.cluster * c.cluster));
}

GemmStreamPlan WgmmaGrid::stream(const Problem& p, const GemmWgmmaConfig& c,
                                 const DeviceInfo& device) const {
  return kernels::wgmma_stream(c, tiles_m, tiles_n, p.dims[kK], device.units);
}

bool wgmma_b_by_depth(const Problem& p, const GemmWgmmaConfig& c) {
  return c.swapped ? p.tensors[kA].layout != Layout::kTransposed
                   : p.tensors[kB].layout == Layout::kTransposed;
}

// Where cuBLAS would split K its chains are short, and ours must be, too (as in cuda_mma).
std::int32_t wgmma_span(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  const bool splits = 4 * ceil_div(p.dims[kM], 128) * ceil_div(p.dims[kN], 64) < 3 * device.units;
  return tensor_core_span(p, WgmmaGrid(p, c).chain, splits);
}

void constrain_wgmma(const Problem& p, const DeviceInfo& device, Space& space) {
  const auto rules = std::make_shared<const Rules>(p, device);
  using Names = std::vector<std::string_view>;
  const auto require = [&](const char* name, const Names& knobs,
                           bool (Rules::*rule)(const GemmWgmmaConfig&) const) {
    space.require(wgmma_table(), name, knobs,
                  [rules, rule](const GemmWgmmaConfig& c) { return (*rules.*rule)(c); });
  };
  const Names tile = {"swapped", "block_m", "block_n"};
  const auto with = [&](Names more) {
    more.insert(more.end(), tile.begin(), tile.end());
    return more;
  };
  require("swap_is_useful", tile, &Rules::swap_is_useful);
  require("block_m_wastes_little", {"swapped", "block_m"}, &Rules::block_m_wastes_little);
  require("block_n_wastes_little", {"swapped", "block_n"}, &Rules::block_n_wastes_little);
  require("tile_is_large", tile, &Rules::tile_is_large);
  require("depth_suits_tile", {"block_m", "block_n", "block_k"}, &Rules::depth_suits_tile);
  require("warpgroups_suit_tile", {"block_m", "warpgroups", "pingpong"},
          &Rules::warpgroups_suit_tile);
  require("pingpong_has_a_next", with({"pingpong"}), &Rules::pingpong_has_a_next);
  require("registers_suffice", with({"warpgroups", "pingpong"}), &Rules::registers_suffice);
  require("cluster_is_useful", with({"block_k", "pingpong", "share", "cluster"}),
          &Rules::cluster_is_useful);
  require("stream_is_useful", with({"block_k", "share", "cluster", "group_m", "stream"}),
          &Rules::stream_is_useful);
  require("device_is_filled", with({"share", "cluster", "stream"}), &Rules::device_is_filled);
  const Names whole = with({"block_k", "warpgroups", "pingpong", "share", "cluster", "stages"});
  require("kernel_exists", whole, &Rules::exists);
  require("ring_is_deep",
          with({"block_k", "warpgroups", "pingpong", "share", "cluster", "stages", "stream"}),
          &Rules::ring_is_deep);
  require("weight_leaves_first", with({"weight_once"}), &Rules::weight_leaves_first);
  require("group_matters", with({"group_m"}), &Rules::group_matters);
}

}  // namespace dlblas::gemm
