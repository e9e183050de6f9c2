// Knobs, constraints, default and estimate of blocked products; see blocked_product.hpp.
#include "kernels/blocked_product.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/integers.hpp"
#include "core/rates.hpp"

namespace dlblas::kernels {
namespace {

using C = CpuGemmConfig;
constexpr std::int64_t kFloatBytes = sizeof(float);

const ProductLevel& level_of(const Query& q, const BlockedProduct& p) {
  return p.level ? *p.level : code_of<ProductLevel>(q);
}
const ConfigTable<C>& table_of(const Query& q) {
  return static_cast<const ConfigTable<C>&>(*q.self.knobs);
}
double threads_of(const Query& q) { return std::max<int>(1, q.problem.threads); }

/// Bytes of a packed block of a.
std::int64_t block_bytes(const GemmBlocks& code, const C& c) {
  return kFloatBytes * c.block_m * (round_up(c.block_k, code.depths) + code.pad) /
         code.depths_per_float;
}
constexpr std::int64_t kMinRows = 96;

/// True when no smaller value of the knob already covers the dimension: larger blocks would run the
/// same loops.
bool block_is_distinct(const KnobTable& knobs, std::string_view name, std::int64_t value,
                       std::int64_t size) {
  for (const std::int64_t v : knobs.values(name))
    if (v < value && v >= size) return false;
  return true;
}

}  // namespace

const ConfigTable<CpuGemmConfig>& blocked_table(const ProductLevel& level) {
  auto* labels = new std::vector<std::string>;  // lives as long as the process, as the table does
  std::vector<std::int64_t> tiles;
  for (int i = 0; i < level.code->blocks->num_tiles; ++i) {
    labels->push_back(text(level.code->blocks->tiles[i].m, "x", level.code->blocks->tiles[i].n));
    tiles.push_back(i);
  }
  const bool floats = level.multiplier == Multiplier::kFloats;
  // Pairs are packed narrow, so that packed data stays in the second-level cache until it is
  // multiplied.
  const std::vector<std::int64_t> depths = {256, 512}, columns = {256, 512, 1024, 4096};
  const std::vector<std::int64_t> pair_depths = {512, 1024, 2048},
                                  code_depths = {512, 1024, 2048, 4096},
                                  pair_columns = {128, 256, 512, 1024},
                                  panel_columns = {128, 256, 512, 1024, 4096};
  const GemmBlocks& code = *level.code->blocks;
  const bool panels = code.panel > 0;  // of weights that were packed so deep
  return *new ConfigTable<C>{
      field<&C::tile>("tile", tiles, {labels->begin(), labels->end()}),
      field<&C::block_m>("block_m", {96, 192, 384}),
      field<&C::block_n>("block_n", panels   ? panel_columns
                                    : floats ? columns
                                             : pair_columns),
      field<&C::block_k>("block_k", floats || panels            ? depths
                                    : code.depths_per_float > 2 ? code_depths
                                                                : pair_depths),
      field<&C::order>("order", {0, 1}, {"columns", "rows"}),
      field<&C::split>("split", {0, 1}, {"columns", "rows"}),
      field<&C::pack_a>("pack_a", {0, 1}),
  };
}

// Measured on Granite Rapids, one thread, November 2026.
double speed_of(Multiplier multiplier) {
  if (multiplier == Multiplier::kTiles) return 14;
  return multiplier == Multiplier::kPairs ? 1.8 : 1;
}

bool multiplies_pairs(const DeviceInfo& device, DType a) {
  return a == DType::kBF16 && device.avx512_bf16 && !device.amx;
}

CpuGemmConfig blocked_config(const Query& q, const Config& config) {
  return table_of(q).from_config(config);
}

Support supports_blocked(const Query& q, const BlockedProduct& p, int a) {
  if (level_of(q, p).multiplier != Multiplier::kFloats && p.a->dtype != DType::kBF16)
    return Support::no("the unit multiplies bf16 alone; {} has another dtype", tensor(a));
  return Support::yes();
}

void constrain_blocked(const Query& q, const BlockedProduct& p, Space& space) {
  const auto& t = table_of(q);
  const ProductLevel& level = level_of(q, p);
  const GemmBlocks& code = *level.code->blocks;
  const auto distinct = [&](std::string_view rule, std::string_view knob, std::int32_t C::*member,
                            std::int64_t size) {
    space.require(t, rule, {knob}, [&t, knob, member, size](const C& c) {
      return block_is_distinct(t, knob, c.*member, size);
    });
  };
  distinct("block_m_distinct", "block_m", &C::block_m, p.m);
  distinct("block_n_distinct", "block_n", &C::block_n, p.n);
  distinct("block_k_distinct", "block_k", &C::block_k, p.k);
  const std::int64_t least = t.values("block_k").front();
  space.require(t, "a_block_fits_l2", {"block_m", "block_k"},
                [&code, least, l2 = q.device.l2_bytes](const C& c) {
                  return block_bytes(code, c) <= l2 ||
                         (c.block_m == kMinRows && c.block_k == least);
                });
  space.require(t, "rows_enough_to_split", {"tile", "split"},
                [&code, m = p.m, threads = q.problem.threads](const C& c) {
                  return c.split == GemmSplit::kColumns ||
                         (threads > 1 && m >= std::int64_t{threads} * code.tiles[c.tile].m);
                });
  const bool floats = level.multiplier == Multiplier::kFloats;
  const bool readable = !floats || p.a->dtype == DType::kF32;
  space.require(t, "in_place_a_is_f32", {"pack_a"},
                [readable](const C& c) { return readable || c.pack_a; });
  space.require(t, "in_place_rows_are_few", {"tile", "pack_a"}, [floats, &code](const C& c) {
    return !floats || c.pack_a || code.tiles[c.tile].m <= kInPlaceRows;
  });
}

int best_tile(const ProductLevel& level, double rows, std::int64_t n) {
  int found = 0;
  double best = 0;
  for (int i = 0; i < level.code->blocks->num_tiles; ++i) {
    const GemmTile tile = level.code->blocks->tiles[i];
    const auto whole =
        static_cast<double>(round_up(static_cast<std::int64_t>(std::max(1.0, rows)), tile.m));
    double used = rows / whole;
    const auto columns = static_cast<double>(std::max<std::int64_t>(1, n));
    used *= columns / static_cast<double>(round_up(std::max<std::int64_t>(1, n), tile.n));
    // A vector of b is multiplied by one element of a; with tiles, both operands are tiles.
    const double loads = level.multiplier == Multiplier::kTiles
                             ? 8.0 / tile.m + 8.0 / tile.n
                             : 1.0 / tile.m + 1.0 * level.lanes / tile.n;
    const double score = used / (1 + 0.3 * loads);
    if (score > best) best = score, found = i;
  }
  return found;
}

Config default_blocked(const Query& q, const BlockedProduct& p) {
  const ProductLevel& level = level_of(q, p);
  // Measured on AMD Zen 4, f32 512×4096×1024, one thread, November 2026: 6x64 with a read in place,
  // blocks 192×1024×512: 109 GFLOP/s; 14x32 packed: 104; block_k 256: 107; 24x16 in place: 27 (24
  // streams of a).
  C c{0, 192, 1024, 512, GemmOrder::kColumns, GemmSplit::kColumns, true};
  const bool floats = level.multiplier == Multiplier::kFloats;
  c.tile = best_tile(level, static_cast<double>(p.m), p.n);
  const bool by_rows = p.a->layout == Layout::kContiguous || p.a->layout == Layout::kRowStrided;
  const bool few_streams =
      p.a->dtype == DType::kF32 && level.code->blocks->tiles[c.tile].m <= kInPlaceRows;
  c.pack_a = !by_rows || (floats && !few_streams);
  // With few rows, packing b is most of the work and needs long runs of b: 16×4096×4096 takes 9.0
  // ms with 4096×256 against 10.6 with 1024 columns.
  constexpr std::int64_t kFewRows = 64;
  if (p.m <= kFewRows) c.block_n = 4096, c.block_k = 256;
  // Granite Rapids, one thread, 512×4096 bf16 by 2048 columns: 1024×256 0.95 TFLOP/s, 512×512 0.93,
  // 1024×1024 0.83. Its third-level cache gives a thread 27 GB/s, so b's blocks, of both parts,
  // stay in the second level (512×4096 by 11,008, two threads, ms: 128 columns of each part 52 to
  // 55, 256 54 to 58).
  if (!floats) c.block_m = 96, c.block_n = p.parts == 1 ? 256 : 128, c.block_k = 1024;
  return fit_blocked(q, p, c);
}

Config fit_blocked(const Query& q, const BlockedProduct& p, CpuGemmConfig c) {
  const ProductLevel& level = level_of(q, p);
  const KnobTable& knobs = *q.self.knobs;
  const auto fit = [&](std::string_view name, std::int64_t wish, std::int64_t size) {
    std::int64_t fitting = knobs.values(name).front();
    for (const std::int64_t v : knobs.values(name))
      if (v <= wish && block_is_distinct(knobs, name, v, size)) fitting = v;
    return static_cast<std::int32_t>(fitting);
  };
  c.block_m = fit("block_m", c.block_m, p.m);
  c.block_n = fit("block_n", c.block_n, p.n);
  c.block_k = fit("block_k", c.block_k, p.k);
  if (block_bytes(*level.code->blocks, c) > q.device.l2_bytes)
    c.block_m = kMinRows, c.block_k = fit("block_k", 0, p.k);
  return table_of(q).to_config(c);
}

double estimate_blocked_ms(const Query& q, const BlockedProduct& p, const Config& config) {
  const ProductLevel& level = level_of(q, p);
  const GemmTile tile = level.code->blocks->tiles[blocked_config(q, config).tile];
  const auto m = static_cast<double>(round_up(p.m, tile.m));
  const auto n = static_cast<double>(p.parts * round_up(p.n, tile.n));
  const auto k = static_cast<double>(p.k);
  const double multiply = 2 * m * n * k / (rates_of(q).f32_flops * speed_of(level.multiplier));
  // Packing runs at the rate of the machine's memory, whichever level packs.
  const double memory = unit_rates(q.device, q.device.isa_hardware).memory_bytes_per_s;
  const double pack = kFloatBytes * (m * k + n * k) / level.code->blocks->depths_per_float;
  return 1e3 * (multiply + pack / (kPacking * memory)) / threads_of(q) + 0.005;
}

GemmBlocked prepare_blocked(const Query& q, const BlockedProduct& p, const Config& config,
                            const GemmSumOrder& sums, bool holds_sums) {
  const ProductLevel& level = level_of(q, p);
  const bool floats = level.multiplier == Multiplier::kFloats;
  const GemmSumOrder& of_pairs = level.multiplier == Multiplier::kTiles ? kTileSums : kLongSums;
  return gemm_blocked(*level.code, blocked_config(q, config), floats ? sums : of_pairs,
                      static_cast<int>(threads_of(q)), p.k, holds_sums);
}

// ---- few rows on a unit ----

namespace {
using R = CpuGemmRowConfig;
/// The most tiles of b in use side by side: six tiles of sums, one per 16 rows and tile of b.
std::int64_t most_columns(std::int64_t m) {
  return 6 / std::clamp<std::int64_t>(ceil_div(m, 16), 1, 4);
}
bool by_tiles(const Query& q) { return code_of<ProductLevel>(q).multiplier == Multiplier::kTiles; }
}  // namespace

const ConfigTable<R>& unit_rows_table(Multiplier multiplier) {
  static const auto* tiles = new ConfigTable<R>{
      field<&R::tiles>("tiles", {1, 2, 3}),
      field<&R::block_n>("block_n", {16}),
      field<&R::prefetch>("prefetch", {0, 512}),
  };
  static const auto* pairs = new ConfigTable<R>{
      field<&R::block_n>("block_n", {kPairColumns}),
      field<&R::prefetch>("prefetch", {0, 1}),
  };
  return multiplier == Multiplier::kTiles ? *tiles : *pairs;
}

Support supports_unit_rows(const Query& q, const BlockedProduct& p, int a, int b) {
  if (const Support types = supports_blocked(q, p, a); !types) return types;
  const std::int64_t most = by_tiles(q) ? kMaxRowsOfTiles : kMaxDotRows;
  if (p.m > most)
    return Support::no("{} has more than {} rows (bucket {}): they are packed in blocks", tensor(a),
                       most, p.m);
  if (by_tiles(q) && p.n < kMinColumnsOfTiles)
    return Support::no("{} has fewer than {} columns, those of a tile", tensor(b),
                       kMinColumnsOfTiles);
  return Support::yes();
}

void constrain_unit_rows(const Query& q, const BlockedProduct& p, Space& space) {
  if (by_tiles(q))
    space.require(
        unit_rows_table(Multiplier::kTiles), "sums_fit_the_tiles", {"tiles"},
        [most = most_columns(p.m)](const R& c) { return c.tiles <= most || c.tiles == 1; });
}

Config default_unit_rows(const Query& q, const BlockedProduct& p) {
  const Multiplier multiplier = code_of<ProductLevel>(q).multiplier;
  const ConfigTable<R>& table = unit_rows_table(multiplier);
  if (multiplier == Multiplier::kPairs) return table.to_config({1, kPairColumns, p.m > 2, true});
  // 16×4096×11008, two threads of Granite Rapids, November 2026, ms: 2 tiles side by side 7.6, 1 or
  // 3 7.5; with prefetch 7.1 to 8.0; 4 or 6 tiles 7.9, with prefetch 10.7 to 15.2.
  R c{1, 16, 0, true};
  for (const std::int64_t v : table.values("tiles"))
    if (v <= std::min<std::int64_t>(2, most_columns(p.m))) c.tiles = static_cast<std::int32_t>(v);
  return table.to_config(c);
}

double estimate_unit_rows_ms(const Query& q, const BlockedProduct& p) {
  const Rates rates = rates_of(q);
  const Multiplier multiplier = code_of<ProductLevel>(q).multiplier;
  const double columns = static_cast<double>(p.parts) * static_cast<double>(p.n);
  const double bytes = 2 * columns * static_cast<double>(p.k);
  const double flops =
      bytes * static_cast<double>(round_up(p.m, multiplier == Multiplier::kTiles ? 16 : 1));
  // b is read once: a thread reads its share from memory or multiplies it, whichever takes longer.
  // With so few rows that vectors keep up, streams of whole columns read faster than tiles.
  const double reading = multiplier == Multiplier::kTiles ? 0.97 : 1;
  const double seconds = std::max(bytes / (reading * rates.memory_bytes_per_s),
                                  flops / (rates.f32_flops * speed_of(multiplier)));
  return 1e3 * seconds / threads_of(q) + 0.005;
}

GemmFewRows prepare_unit_rows(const Query& q, const Config& config) {
  const ProductLevel& level = code_of<ProductLevel>(q);
  return {level.code, unit_rows_table(level.multiplier).from_config(config), kTileSums,
          static_cast<int>(threads_of(q))};
}

}  // namespace dlblas::kernels
