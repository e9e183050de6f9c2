// Which configurations of the WGMMA form exist, and what one takes; see wgmma_space.hpp.
#include "kernels/wgmma_space.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "core/integers.hpp"
#include "core/rates.hpp"

namespace dlblas::kernels {
namespace {

using C = GemmWgmmaConfig;

/// Limits near each other slow each other down: about the larger of a and b, and more if they are
/// close.
double limits(double a, double b, double order) {
  return std::pow(std::pow(a, order) + std::pow(b, order), 1 / order);
}

}  // namespace

std::int32_t tensor_core_span(std::int64_t chain) {
  constexpr std::int32_t kLong = 2048;
  constexpr std::int64_t kLongestChain = 16384;
  return chain > kLongestChain ? kLong : 0;
}

WgmmaShape::WgmmaShape(const GemmSize& whole, double bytes, const WgmmaTiles& tiles,
                       const Problem& problem, const DeviceInfo& device)
    : m_(std::max<std::int64_t>(1, whole.m)),
      n_(std::max<std::int64_t>(1, whole.n)),
      k_(std::max<std::int64_t>(1, whole.k)),
      bytes_(bytes),
      tile_(tiles),
      same_bits_((problem.flags & kDeterministic) != 0),
      device_(device) {}

std::int32_t WgmmaShape::span(const C& c) const { return tensor_core_span(chain(c)); }

std::int64_t WgmmaShape::tiles_m(const C& c) const { return ceil_div(m_, c.block_m); }
std::int64_t WgmmaShape::tiles_n(const C& c) const { return ceil_div(n_, c.block_n); }
/// Blocks that have work, in whole clusters.
std::int64_t WgmmaShape::blocks(const C& c) const {
  const std::int64_t rows = c.share == GemmShare::kB ? round_up(tiles_m(c), c.cluster) : tiles_m(c);
  const std::int64_t columns =
      c.share == GemmShare::kA ? round_up(tiles_n(c), c.cluster) : tiles_n(c);
  return rows * columns * (c.share == GemmShare::kK ? c.cluster : 1);
}
/// Terms of K per block.
std::int64_t WgmmaShape::chain(const C& c) const {
  return c.share == GemmShare::kK ? round_up(ceil_div(k_, c.cluster), c.block_k) : k_;
}
/// Tiles one after the other on the fullest multiprocessor.
std::int64_t WgmmaShape::waves(const C& c) const {
  const std::int64_t units = c.cluster == 4 ? device_.units * 10 / 11 : device_.units;
  return ceil_div(blocks(c), std::max<std::int64_t>(1, units / c.cluster * c.cluster));
}

/// A block that normalises rows has one tile, which holds all rows.
bool WgmmaShape::tile_is_the_blocks_only(const C& c) const {
  return c.block_m >= m_ && tiles(c) <= device_.units;
}
bool WgmmaShape::block_m_wastes_little(const C& c) const {
  return c.block_m == 64 || 4 * round_up(m_, c.block_m) <= 5 * round_up(m_, 64);
}
/// For a program that needs columns together, the narrowest tile is that wide.
bool WgmmaShape::block_n_wastes_little(const C& c) const {
  const int least = std::max(16, tile_.parts * tile_.columns);
  if (c.block_n % 16 != 0 || c.block_n % (tile_.parts * tile_.columns) != 0) return false;
  return c.block_n == least || 8 * round_up(n_, c.block_n) <= 9 * round_up(n_, 16);
}
bool WgmmaShape::tile_is_large(const C& c) const {
  const double share = static_cast<double>(m_) * static_cast<double>(n_) / device_.units;
  const double most = span(c) > 0 ? 128 * 64 : 128 * 96;
  return c.block_n >= n_ || c.block_m * c.block_n >= std::min(share / 2, most);
}
bool WgmmaShape::depth_suits_tile(const C& c) const {
  const int sides = c.block_m + c.block_n;
  if (c.block_k > 64 && c.block_k > round_up(k_, 64)) return false;
  if (c.block_k == 256) return sides <= 96;
  if (c.block_k == 128) return sides <= 192;
  return sides > 96 || k_ <= 64;
}
bool WgmmaShape::warpgroups_suit_tile(const C& c) const {
  return c.warpgroups == (c.block_m == 64 ? 1 : 2) && (!c.pingpong || c.block_m == 128);
}
bool WgmmaShape::pingpong_has_a_next(const C& c) const {
  return !c.pingpong || tiles(c) > device_.units;
}
bool WgmmaShape::cluster_is_useful(const C& c) const {
  if ((c.share == GemmShare::kNone) != (c.cluster == 1)) return false;
  if (c.share == GemmShare::kNone) return true;
  if (c.share == GemmShare::kK)
    return !same_bits_ && !c.pingpong && tiles(c) * c.cluster <= device_.units &&
           k_ >= std::int64_t{4} * c.block_k * c.cluster;
  // A part's share of the columns is a multiple of eight, too.
  if (c.share == GemmShare::kB && c.block_n % (8 * tile_.parts * c.cluster) != 0) return false;
  const std::int64_t neighbours = c.share == GemmShare::kA ? tiles_n(c) : tiles_m(c);
  return c.cluster == 2 && c.block_m >= 128 && neighbours >= 2 && tiles(c) > device_.units;
}
bool WgmmaShape::device_is_filled(const C& c) const {
  const bool is_smallest = c.block_m == 64 || (tile_.gain_bytes > 0 && m_ > 64);
  if (is_smallest && c.block_n <= std::max(64, tile_.parts * tile_.columns)) return true;
  return 5 * tiles(c) * (c.share == GemmShare::kK ? c.cluster : 1) >= 3 * device_.units;
}
bool WgmmaShape::exists(const C& c) const {
  return valid(with_norm(c, tile_.gain_bytes)) && !(c.pingpong && span(c) > 0) &&
         c.sums() <= (c.pingpong ? tile_.most_apart : tile_.most_together) &&
         (span(c) == 0 || c.sums() <= tile_.most_carried) &&
         with_norm(c, tile_.gain_bytes).shared_bytes(true, span(c)) <=
             device_.shared_bytes_per_block;
}
bool WgmmaShape::ring_is_deep(const C& c) const {
  const std::int64_t work = ceil_div(chain(c), c.block_k) * waves(c);
  C o = c;
  std::int32_t deepest = 2;
  for (const std::int64_t stages : wgmma_table().values("stages")) {
    o.stages = static_cast<std::int32_t>(stages);
    if (stages <= work && exists(o)) deepest = std::max(deepest, o.stages);
  }
  return c.stages == deepest || (c.stages == deepest - 1 && c.stages >= 3);
}
bool WgmmaShape::weight_leaves_first(const C& c) const {
  return c.weight_once == (tiles_m(c) == 1);
}
bool WgmmaShape::group_matters(const C& c) const {
  const bool matters = tiles_m(c) > 8 && tiles(c) > device_.units;
  return c.group_m == 8 || (matters && c.group_m == 16);
}

// The model, as matmul's: the tile's time, memory's time, and the exchange within a cluster.

/// Rows of x that a tile's copies bring: none past the end where one tile holds all (as in matmul).
double WgmmaShape::rows_copied(const C& c) const {
  return static_cast<double>(
      c.share == GemmShare::kA ? c.block_m : std::min<std::int64_t>(c.block_m, round_up(m_, 8)));
}
/// Seconds for 64 of a tile's K while L2 serves the fraction `crowd` of the device.
double WgmmaShape::step_seconds(const C& c, double crowd) const {
  constexpr double kProducts = 1.12, kClock = 1.47, kFromL2 = 1.33;
  constexpr double kFlopsAClock = 4096, kBytesAClock = 128;
  const Rates unit = unit_rates(device_);
  const double rows = c.block_m, columns = c.block_n;
  const double products = 2 * rows * columns * 64 / (kProducts * unit.half_flops);
  const double read = rows / 64 * (64 + columns) * 128, written = (rows + columns) * 128;
  const double clock = kClock * unit.half_flops / kFlopsAClock;
  const double shared = (read + written) / (kBytesAClock * clock);
  const double brought = (c.share == GemmShare::kA ? rows / 2 : rows_copied(c)) +
                         (c.share == GemmShare::kB ? columns / 2 : columns);
  const double copied = crowd * brought * 128 / (kFromL2 * unit.alone_bytes_per_s);
  const double odd = c.block_n % 32 == 16 ? 1.06 : 1, dry = c.stages * c.steps() < 4 ? 1.03 : 1;
  const double together = c.pingpong ? 1 : 1.01;
  // H200, 29 November 2026: 128 × 256 with K over two took 95.5 and 33.2 µs for 512 × 4096 × 14336
  // and × 4096, where 128 × 128 took 89.3 and 27.3.
  const double pair = c.multicast()                                   ? (c.pingpong ? 1.01 : 1.02)
                      : c.share == GemmShare::kK && c.warpgroups == 2 ? 1.08
                                                                      : 1;
  return limits(products, limits(shared, copied, 3), 8) * odd * dry * together * pair;
}
double WgmmaShape::product_seconds(const C& c) const {
  constexpr double kEpilogue = 1.4e-6;
  const auto in_turn = static_cast<double>(waves(c));
  const double last = static_cast<double>(blocks(c)) / device_.units - (in_turn - 1);
  const double steps =
      (in_turn - 1) * step_seconds(c, 1) + step_seconds(c, std::clamp(last, 0.7, 1.0));
  return steps * static_cast<double>(chain(c)) / 64 + (c.pingpong ? 1 : in_turn) * kEpilogue;
}
double WgmmaShape::memory_seconds(const C& c) const {
  constexpr double kLatency = 2e-6, kEnds = 1e-6, kAlone = 0.8, kIdle = 0.05, kAgain = 0.06;
  constexpr double kPort = 0.8;
  const double at_once = std::min<double>(static_cast<double>(blocks(c)), device_.units);
  const double of_x = rows_copied(c);
  const double in_flight = at_once * c.stages * (of_x + c.block_n) * c.block_k * 2;
  const double there = std::min(static_cast<double>(m_ + 8), of_x) +
                       static_cast<double>(std::min<std::int64_t>(n_ + 8, c.block_n));
  const double useful = there / (of_x + c.block_n);
  const double busy = 1 - kIdle * (1 - at_once / device_.units);
  const double again = 1 + kAgain * std::min(3.0, static_cast<double>(tiles_m(c)) - 1);
  const double of_a_port = std::ceil(at_once / (device_.units / 2.0));  // two units share one
  const double alone = unit_rates(device_).alone_bytes_per_s;
  const double rate = std::min({memory_bytes_per_s(device_), in_flight / kLatency,
                                kAlone * at_once * alone, kPort * at_once / of_a_port * alone});
  return bytes_ * again / (useful * busy * rate) + kEnds * static_cast<double>(waves(c) - 1);
}
/// What the warps that normalise rows take for all stages.
double WgmmaShape::scaling_seconds(const C& c) const {
  // H200, 29 November 2026, 32 stages of 128 of K: 16.4 to 17.0 µs with 16 rows, 18.2 to 19.8 with
  // 32, 21.2 to 22.4 with 64, 40 with 128. Stages of 256 are not measured: taken for twice those of
  // 128.
  constexpr double kStage = 0.42e-6, kOneTile = 0.025e-6, kTwo = 0.05e-6;  // 16 rows of 64 of K
  const double step = c.warpgroups == 1 ? kOneTile : kTwo;
  const double rows = static_cast<double>(ceil_div(std::min<std::int64_t>(m_, c.block_m), 16));
  return static_cast<double>(ceil_div(k_, c.block_k)) *
         (kStage * std::max(1.0, c.steps() / 2.0) + step * rows * c.steps());
}
double WgmmaShape::milliseconds(const C& c) const {
  constexpr double kBarriers = 0.5e-6, kWords = 0.3;
  const double sums = 4.0 * (c.cluster - 1) * c.block_m * c.block_n;
  const double meeting =
      c.share == GemmShare::kK
          ? kBarriers * c.cluster + sums / (kWords * unit_rates(device_).alone_bytes_per_s)
          : 0;
  const double spans = span(c) > 0 ? 0.4e-6 * c.sums() / 64 : 0;
  const double order =
      (c.group_m == 16 ? 0 : 1e-9) + 1e-9 * (32 - c.stages * c.steps()) + 1e-10 * (8 - c.stages);
  double seconds = limits(product_seconds(c), memory_seconds(c), 8);
  if (tile_.gain_bytes > 0) seconds = limits(seconds, scaling_seconds(c), 8);
  return 1e3 * (seconds + meeting + spans + order + 1.5e-6);
}

void WgmmaShape::constrain(Space& space) const {
  const auto shape = std::make_shared<const WgmmaShape>(*this);
  using Names = std::vector<std::string_view>;
  const auto require = [&](const char* name, const Names& knobs,
                           bool (WgmmaShape::*rule)(const C&) const) {
    space.require(wgmma_table(), name, knobs,
                  [shape, rule](const C& c) { return (*shape.*rule)(c); });
  };
  const Names cluster = {"block_m", "block_n", "block_k", "pingpong", "share", "cluster"};
  const Names whole = {"block_m",  "block_n", "block_k", "warpgroups",
                       "pingpong", "share",   "cluster", "stages"};
  require("is_offered", {"swapped", "stream"}, &WgmmaShape::is_offered);
  if (tile_.gain_bytes > 0)
    require("tile_is_the_blocks_only", {"block_m", "block_n"},
            &WgmmaShape::tile_is_the_blocks_only);
  require("block_m_wastes_little", {"block_m"}, &WgmmaShape::block_m_wastes_little);
  require("block_n_wastes_little", {"block_n"}, &WgmmaShape::block_n_wastes_little);
  require("depth_suits_tile", {"block_m", "block_n", "block_k"}, &WgmmaShape::depth_suits_tile);
  require("warpgroups_suit_tile", {"block_m", "warpgroups", "pingpong"},
          &WgmmaShape::warpgroups_suit_tile);
  require("pingpong_has_a_next", {"block_m", "block_n", "pingpong"},
          &WgmmaShape::pingpong_has_a_next);
  require("cluster_is_useful", cluster, &WgmmaShape::cluster_is_useful);
  require("tile_is_large", {"block_m", "block_n", "block_k", "share", "cluster"},
          &WgmmaShape::tile_is_large);
  require("device_is_filled", {"block_m", "block_n", "share", "cluster"},
          &WgmmaShape::device_is_filled);
  require("kernel_exists", whole, &WgmmaShape::exists);
  require("ring_is_deep", whole, &WgmmaShape::ring_is_deep);
  require("weight_leaves_first", {"block_m", "weight_once"}, &WgmmaShape::weight_leaves_first);
  require("group_matters", {"block_m", "block_n", "group_m"}, &WgmmaShape::group_matters);
}

}  // namespace dlblas::kernels
