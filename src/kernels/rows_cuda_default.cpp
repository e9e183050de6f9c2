// See rows_cuda_config.hpp: the default, one rule per kernel with its measurements.
#include <algorithm>
#include <bit>
#include <optional>

#include "core/error.hpp"
#include "kernels/rows_cuda_config.hpp"

namespace dlblas::kernels {
namespace {

using Kind = RowKernelKind;

constexpr std::int32_t kStridedThreads = 256;
/// Columns that a thread holds, where heads are read whole.
constexpr std::int32_t kStridedHeld = 16;

/// Registers, besides the descriptor's, for columns and tables with wider elements than rows have.
/// `same`: a thread's accesses share them.
int wide_registers(const RowKernel& k, const Problem& problem, const RowTraits& traits,
                   const RowConfig& c, bool same) {
  int bytes = 0;
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    const bool table = k.op->op.heads && spec.role == RowRole::kRow;
    if (problem.tensors[spec.tensor].dtype == DType::kAbsent) continue;
    if (spec.written || !(table || spec.role == RowRole::kColumns ||
                          spec.role == RowRole::kGathered || spec.role == RowRole::kHeadColumns))
      continue;
    bytes += spec.times * std::max(0, size_of(traits.types[i]) - size_of(traits.types[0]));
  }
  return (same ? 1 : c.vectors) * traits.n * bytes / 4;
}

/// More registers: for groups of a row that blocks share or that does not fill the threads (NVRTC
/// 13.2; 13.0 needs none), for codes that are converted in integers, for pages if the row does not
/// fill the threads, or before sm_90, and for heads that begin at another column in each block of a
/// cluster (rms_norm_rope, 64 heads of 1000 in f32, 128 threads × 4 vectors: 97 to 104).
int group_registers(const RowKernel& k, const RowTraits& traits, const RowConfig& c,
                    const DeviceInfo& device) {
  constexpr int kFloat8Arch = 89, kMore = 8, kPages = 16, kUneven = 24;
  bool codes = false;
  for (std::size_t i = 0; i < k.op->operands.size(); ++i)
    codes |= k.op->operands[i].written && size_of(traits.types[i]) == 1;
  const bool shared =
      k.op->op.reduces_groups && (c.cluster > 1 || (!traits.full && c.vectors >= 4));
  const bool pages = traits.shape.paged != 0 && (!traits.full || device.arch < 90);
  const int width = traits.shape.head_width;
  const bool uneven =
      c.cluster > 1 && width > 0 && !traits.full && c.threads * traits.n % width != 0;
  return (shared ? kMore : 0) + (uneven ? kUneven : 0) +
         (codes && device.arch < kFloat8Arch ? kMore : 0) + (pages ? kPages : 0);
}

/// More registers: for a row's places in several operands beside the rows that its numbers select
/// (NVRTC 13.2, sm_90: mrope_heads, nested, one access per thread, spilled 40 bytes at 48).
int nested_registers(const RowTraits& traits) {
  return traits.nested && traits.shape.indices > 2 ? 8 : 0;
}

/// As many blocks per multiprocessor as the descriptor's registers allow; 0: none.
std::int32_t blocks_for(const RowKernel& k, const Problem& problem, const RowConfig& c,
                        const DeviceInfo& device) {
  const int threads = (c.threads * c.rows + 31) / 32 * 32;
  const RowOp& op = k.op->op;
  const bool late = !c.early && op.late_access_registers > 0;
  const int access = late ? op.late_access_registers : op.access_registers;
  const RowTraits traits = traits_with(k, problem, c);
  const int width = traits.shape.head_width;
  const bool same = width > 0 && c.threads * traits.n % width == 0;
  const int wide = (c.early ? wide_registers(k, problem, traits, c, same) : 0) +
                   group_registers(k, traits, c, device) + nested_registers(traits);
  const int needed = op.tuning && op.tuning->registers ? op.tuning->registers(traits, c)
                                                       : op.registers + c.vectors * access + wide;
  const int most = std::min(65536 / (needed * threads), threads_per_unit(device) / threads);
  std::int32_t found = 0;
  for (const std::int64_t b : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16})
    if (b <= most && (k.kind != Kind::kFolded || (b != 5 && b <= 8)))  // its knob's values
      found = static_cast<std::int32_t>(b);
  return found;
}

/// Sets `c.blocks` to what the descriptor's registers allow; true if `c` then fits.
bool complete(const RowKernel& k, const Problem& problem, const DeviceInfo& device, RowConfig& c) {
  c.blocks = blocks_for(k, problem, c, device);
  return c.blocks > 0 && fits(k, problem, c, device);
}

/// Bytes of rows that an access loads, or stores if `stored`.
int row_bytes(const RowKernel& k, const Problem& problem, bool stored) {
  const RowTraits traits = traits_of(k, problem);
  int bytes = 0;
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    if (spec.written == stored && has_rows(spec.role) && has_columns(spec.role) &&
        problem.tensors[spec.tensor].dtype != DType::kAbsent)
      bytes += spec.times * traits.n * size_of(traits.types[i]);
  }
  return bytes;
}

/// Accesses per thread: the fewer bytes an access moves, the more are in flight, as long as every
/// thread of the device gets some. bf16 on H200, 2026-11-23: to f8 by a given scale (24 bytes)
/// 16384×4096 128 threads × 4 vectors 49.4 µs, × 2 51.0, 256 × 1 59.3; silu_and_mul (48) × 1.
/// 2026-11-24: silu_and_mul to f8 (40) 128 × 4 81.7, 256 × 1 94.7.
std::int32_t vectors_of_tiles(const RowKernel& k, const Problem& problem,
                              const DeviceInfo& device) {
  const std::int64_t rows = std::max<std::int64_t>(1, problem.dims[k.op->rows]);
  const std::int64_t all = rows * accesses(k, problem);
  const double bytes =
      bytes_of(*k.op, problem) / static_cast<double>(std::max<std::int64_t>(1, all));
  const int stored = row_bytes(k, problem, true);  // of codes of 8 bits: half of what is usual
  const bool many = bytes <= 28 || (stored > 0 && stored <= 8 && !k.op->op.reduces_groups);
  std::int32_t vectors = many ? 4 : bytes <= 40 ? 2 : 1;
  while (vectors > 1 && all / vectors < std::int64_t{2} * device.units * threads_per_unit(device))
    vectors /= 2;
  return vectors;
}

/// The cost of idle lanes, and of blocks so small or large that a multiprocessor holds fewer
/// threads.
double waste_of(const RowConfig& c, std::int64_t row) {
  const std::int64_t wide = std::int64_t{c.threads} * c.vectors, tiles = (row + wide - 1) / wide;
  const int threads = c.threads * c.rows, block = threads * c.vectors;
  const double size = block < 128                    ? 1.5
                      : block < 256 || threads > 512 ? 1.1
                      : threads < 128                ? 1.05
                                                     : 1;
  return static_cast<double>(tiles * wide) / static_cast<double>(row) * size;
}

/// Resident threads per multiprocessor, which have loads in flight.
int resident(const RowConfig& c) { return c.threads * c.rows * c.blocks; }

/// Tiles of whole rows where threads divide a row, 256 or more per block: silu_and_mul
/// 16384×(2·11264) bf16 on H200, 2026-11-22: 352 threads × 1 × 4 tiles 254 µs, as fast as a copy.
/// With heads, two accesses of a thread share a token's data, unless their registers cost as many
/// accesses in flight: partial_rotary_heads 4096 tokens × 128 heads, 2026-11-24: 160 × 1 × 8 blocks
/// 375 µs, 160 × 2 × 4 blocks 443.
RowConfig pick_tiles(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  const std::int64_t row = accesses(k, problem);
  const RowTraits traits = traits_of(k, problem);
  const bool heads = traits.shape.head_width > 0;
  std::int32_t wanted = heads ? 2 : vectors_of_tiles(k, problem, device);
  // All of a group's accesses, where they are more than the lanes of a warp.
  if (k.op->op.reduces_groups && !heads)
    while (wanted < 4 && wanted * 32 * traits.n < traits.group) wanted *= 2;
  RowConfig best;
  best.threads = 0;
  double least = 1e9;
  for (const std::int64_t threads : k.table->knobs()[0].values) {
    for (std::int32_t vectors = wanted; vectors > 0; vectors /= 2) {
      RowConfig c;
      c.threads = static_cast<std::int32_t>(threads);
      c.vectors = vectors;
      const std::int64_t wide = threads * vectors;
      // Two accesses of a thread at the same columns of two heads share the heads' common data.
      if (heads && vectors == 2 &&
          (threads * traits.n % traits.shape.head_width != 0 || wide > row))
        continue;
      c.rows = std::clamp(wide < 256 && wide >= row ? 256 / static_cast<int>(wide) : 1, 1, 32);
      c.rows = std::bit_floor(static_cast<unsigned>(c.rows));
      while (c.threads > 32 && c.rows > 8) c.rows /= 2;
      if (!complete(k, problem, device, c)) continue;
      const double waste = waste_of(c, row) * (vectors == wanted || heads ? 1 : 1.02);
      if (waste < least - 1e-9) best = c, least = waste;
    }
  }
  if (!heads || best.vectors != 2) return best;
  RowConfig one = best;
  one.vectors = 1;
  const bool more = complete(k, problem, device, one) && resident(one) >= 2 * resident(best);
  return more ? one : best;
}

/// True if the program reads vectors over columns, which take registers beside the row.
bool reads_columns(const RowKernel& k, const Problem& problem) {
  for (const RowOperandSpec& spec : k.op->operands)
    if (spec.role == RowRole::kColumns && !spec.written &&
        problem.tensors[spec.tensor].dtype != DType::kAbsent)
      return true;
  return false;
}

/// `c` with as many rows per block, within `most` threads, as make the most threads resident; on a
/// tie, with more rows. blocks = 0: none fits.
RowConfig with_rows(const RowKernel& k, const Problem& problem, const DeviceInfo& device,
                    RowConfig c, int most) {
  RowConfig best;
  best.blocks = 0;
  const int rows = std::clamp(most / c.threads, 1, 32);
  for (c.rows = static_cast<int>(std::bit_floor(static_cast<unsigned>(rows))); c.rows >= 1;
       c.rows /= 2)
    if (complete(k, problem, device, c) && resident(c) > resident(best)) best = c;
  return best;
}

/// `c`, or, if its registers leave a multiprocessor less than half of its threads, the row over
/// enough threads to double the resident ones, while enough loads are in flight. bf16 on H200,
/// 2026-11-25: layernorm_gated_rows 16384×4096 512 threads × 1 vector × 4 blocks 122.5 µs, 128 × 4
/// × 6 135; a smaller gain is not worth it (layer_norm_backward: 178, and 188 with 1.6 times as
/// many; rms_norm_rope 16384×5120: 83, and 93 with 1.3).
RowConfig with_more_threads(const RowKernel& k, const Problem& problem, const DeviceInfo& device,
                            const RowConfig& c) {
  constexpr int kInFlight = 48 << 10;  // bytes; a copy needs some 32 kB
  if (2 * resident(c) >= threads_per_unit(device)) return c;
  const int bytes = row_bytes(k, problem, false);
  RowConfig best = c;
  for (RowConfig other = c; other.vectors % 2 == 0;) {
    other.vectors /= 2, other.threads *= 2;
    const auto& values = k.table->knobs()[0].values;
    if (std::find(values.begin(), values.end(), other.threads) == values.end()) break;
    const RowConfig found = with_rows(k, problem, device, other, c.threads * c.rows);
    if (found.blocks > 0 && resident(found) > resident(best) &&
        resident(found) >= 2 * resident(c) && resident(found) * found.vectors * bytes >= kInFlight)
      best = found;
  }
  return best;
}

/// The fewest threads that hold exactly the row in few vectors; else that hold it at all; else in
/// many vectors. softmax, bf16 on H200, 2026-11-22: 16384×4096 128 threads × 4 vectors × 4 rows,
/// 4096×8192 512 × 2, 131072×128 8 × 2 × 16, 128×4096 256 × 2, all within 2 % of a copy.
/// layer_norm, whose columns take registers as well, one row per block: 128 × 4 × 1 66.3 µs, × 2
/// and × 4, which spill, 93; 4096×8192 256 × 4 34.2, 512 × 2 39.
RowConfig pick_registers(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  if (is_tiled(k)) return pick_tiles(k, problem, device);
  const bool few = problem.dims[k.op->rows] <= 2 * device.units;
  const std::int64_t row = accesses(k, problem);
  const bool brief = row <= 64, columns = reads_columns(k, problem);
  const int block = few ? 32 : brief || columns ? 128 : 512;
  const int least = few || brief || (row > 512 && !columns) ? 2 : 4;
  RowConfig c;
  c.evict_last = may_evict_last(k, problem, device);
  const auto pick = [&](int most, bool exact) {
    for (const std::int64_t threads : k.table->knobs()[0].values) {
      c.threads = static_cast<std::int32_t>(threads);
      c.vectors = row_vectors_for(row, threads);
      if (c.vectors == 0 || c.vectors > most || (exact && c.vectors * threads != row)) continue;
      if (!exact && !std::has_single_bit(static_cast<std::uint64_t>(threads))) continue;
      if (threads == 1024 && most < 16) continue;  // one block alone on a multiprocessor
      const RowConfig found = with_rows(k, problem, device, c, block);
      if (found.blocks > 0) return found;
    }
    RowConfig none;
    none.blocks = 0;
    return none;
  };
  for (const bool exact : {true, false}) {
    for (const int most : {least, 4, 8, 16}) {
      if (exact && most > 4) break;
      const RowConfig found = pick(most, exact);
      if (found.blocks > 0) return few ? found : with_more_threads(k, problem, device, found);
    }
  }
  c.threads = 0;
  return c;
}

/// Many vectors, and few blocks in a cluster: softmax 1024×65536, bf16 on an H200, 2026-11-22: 256
/// threads × 8 vectors × 4 blocks 69.2 µs, 256 × 4 × 8 70.5, 128 × 16 × 4 73.1, 128 × 8 × 8 80 (a
/// copy 66). Columns are loaded late where the row needs their registers: layer_norm, the same
/// shape, early 256 × 4 × 8 82.5, 256 × 8 × 4 96; the prototype's late 256 × 16 × 2 70.1. With
/// fewer than four blocks per multiprocessor, reads and writes alternate, so the first choice is
/// the smallest cluster that leaves room for four, of blocks that are not too small for it:
/// 2026-11-25, softmax 256×262144 256 × 8 × 16 with four 68.7, with three 74.2; layer_norm
/// 1024×65536 128 × 16 × 4 74.4, 256 × 16 × 2 76.4; 256×262144 128 × 16 × 16 85.8, 256 × 16 × 8
/// 84.3.
RowConfig pick_cluster(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  RowConfig c;
  c.evict_last = may_evict_last(k, problem, device);
  const bool late = k.op->op.late_access_registers > 0;
  const auto holds = [&](std::int32_t threads, std::int32_t cluster, int most) {
    c.threads = threads, c.cluster = cluster;
    c.vectors = row_vectors_for(accesses(k, problem), std::int64_t{threads} * cluster);
    c.early = !late || c.vectors <= 4;
    c.variant = default_variant(k.op->op, c);
    return c.vectors > 0 && c.vectors <= most && complete(k, problem, device, c);
  };
  const int many = late ? 16 : reads_columns(k, problem) ? 4 : 8;
  for (std::int32_t cluster = 2; cluster <= 16; cluster *= 2)
    for (const std::int32_t threads : {512, 256, 128})
      if (holds(threads, cluster, many) && c.vectors == many && c.blocks >= 4 &&
          threads >= 16 * cluster)
        return c;
  for (const int most : {many, 8, 16})
    for (const std::int32_t threads : {256, 512, 1024})
      for (std::int32_t cluster = 2; cluster <= 16; cluster *= 2)
        if (holds(threads, cluster, most)) return c;
  c.threads = 0;
  return c;
}

/// The smallest cluster that leaves a multiprocessor room for two blocks and fills the device. For
/// rows that are read once, several blocks per multiprocessor, which start and end at different
/// times. cross_entropy 4096×128256 bf16 on an H200, 2026-11-24: 512 threads × 2 vectors 241 µs,
/// 1024 × 4 287.
RowConfig pick_passes(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  RowConfig c;
  c.keep = k.kind == Kind::kShared;
  const std::int64_t row = accesses(k, problem),
                     rows = std::max<std::int64_t>(1, problem.dims[k.op->rows]);
  const int most = device.arch < 90 || k.op->op.selects ? 1 : 16;
  if (k.kind == Kind::kRows && row >= 4096 && reads_once(k, problem, device)) {
    c.threads = 512, c.vectors = 2;
    if (complete(k, problem, device, c)) return c;
  }
  for (const std::int64_t room : {shared_room(device) / 2, shared_room(device)}) {
    for (c.cluster = 1; c.cluster <= most; c.cluster *= 2) {
      const std::int64_t part = row / c.cluster;
      c.variant = default_variant(k.op->op, c);
      const bool fills = rows * c.cluster >= 2 * device.units || c.cluster == most || part < 1024;
      c.threads = part >= 4096 ? 1024 : part >= 2048 ? 512 : part >= 1024 ? 256 : 128;
      for (c.vectors = 4; c.vectors >= 1; c.vectors /= 2)
        if (fills && kept_bytes(k, problem, c) <= room && complete(k, problem, device, c)) return c;
    }
  }
  c.threads = 0;
  return c;
}

/// Few threads with many loads, which leave registers for the row in flight: two blocks of 8 warps
/// and one that synchronises have 112 registers per thread. Measured in docs/notes/row_kernels.md.
RowConfig pick_grid(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  RowConfig c;
  c.variant = k.op->op.variants - 1;
  c.early = false;
  struct Block {
    std::int32_t threads, blocks;
  };
  for (const std::int32_t vectors : {8, 4, 2}) {
    for (const Block block : {Block{256, 2}, {512, 1}, {512, 2}, {256, 1}}) {
      c.threads = block.threads, c.vectors = vectors, c.blocks = block.blocks;
      if (65536 / ((c.threads + 32) * c.blocks) >= 32 + 8 * vectors && fits(k, problem, c, device))
        return c;
    }
  }
  c.threads = 0;
  return c;
}

/// Two accesses per thread where they hold the row, 512 threads per multiprocessor, which leaves
/// each 128 registers, and no more rows per block than give every multiprocessor a block.
RowConfig pick_folded(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  constexpr int kResident = 512;
  const std::int64_t row = accesses(k, problem), rows = problem.dims[k.op->rows];
  // layer_norm_backward 16384 × 4096 on an H200 takes 113.6 µs this way, and 117.4 by the rule
  // below.
  if (row == 512 && rows >= std::int64_t{device.units} * 2) {
    RowConfig c;
    c.threads = 128, c.vectors = row_vectors_for(row, 128), c.rows = 2, c.ahead = 1, c.blocks = 1;
    if (c.vectors == 4 && fits(k, problem, c, device)) return c;
  }
  for (const std::int32_t vectors : {2, 1, 4}) {
    for (std::int32_t threads = 4; threads <= 1024; threads *= 2) {
      RowConfig c;
      c.threads = threads;
      c.vectors = row_vectors_for(row, threads);
      if (c.vectors == 0 || c.vectors > vectors) continue;
      const auto complete_with = [&](std::int32_t together) {
        for (const std::int32_t ahead : {3, 2, 1}) {
          c.rows = together, c.ahead = ahead, c.blocks = 1;
          if (!fits(k, problem, c, device)) continue;
          RowConfig more = c;  // short rows
          for (const std::int32_t blocks : {2, 3, 4, 6, 8}) {
            more.blocks = blocks;
            if (blocks * c.rows * threads <= kResident && fits(k, problem, more, device) &&
                rows >= std::int64_t{device.units} * c.rows * blocks)
              c.blocks = blocks;
          }
          return true;
        }
        return false;
      };
      const std::int32_t most = std::clamp(kResident / threads, 1, threads > 32 ? 8 : 32);
      for (std::int32_t together = most; together > 1; together /= 2)
        if (rows >= std::int64_t{device.units} * together && complete_with(together)) return c;
      for (std::int32_t together = 1; together <= most; together *= 2)  // a warp at least
        if (complete_with(together)) return c;
      break;  // more threads hold the row in fewer accesses
    }
  }
  RowConfig none;
  none.threads = 0;
  return none;
}

/// The operator's own choice; nothing if it leaves the choice to the skeleton.
std::optional<RowConfig> pick_wanted(const RowKernel& k, const Problem& problem,
                                     const DeviceInfo& device) {
  const RowTraits traits = traits_of(k, problem);
  const RowQuery asked = {k.kind, problem.dims[k.op->rows], accesses(k, problem), traits, device};
  const bool may_evict = (k.kind == Kind::kRegisters || k.kind == Kind::kCluster) &&
                         may_evict_last(k, problem, device);
  const std::vector<RowConfig> wanted = k.op->op.tuning->wanted(asked);
  if (wanted.empty()) return std::nullopt;
  for (const std::int64_t room : {shared_room(device) / 2, shared_room(device)}) {
    for (RowConfig c : wanted) {
      c.evict_last = may_evict;
      if (kept_bytes(k, problem, c) <= room && complete(k, problem, device, c)) return c;
    }
  }
  RowConfig none;
  none.threads = 0;
  return none;
}

}  // namespace

std::int64_t strided_columns(const RowKernel& k) {
  return kStridedHeld * (k.op->op.reduces_groups ? 32 : kStridedThreads);  // a warp has a group
}

RowConfig strided_config(const RowKernel& k, const Problem& problem) {
  RowConfig c;
  c.threads = kStridedThreads;
  c.vectors = 1;
  const RowShape shape = shape_of(*k.op, problem);
  if (shape.whole && !k.op->op.reduces_groups)
    c.vectors = (shape.head_width + c.threads - 1) / c.threads;
  c.keep = c.early = false;
  c.variant = default_variant(k.op->op, c);
  return c;
}

RowConfig default_config(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  const RowTuning* tuning = k.op->op.tuning;
  if (tuning && tuning->wanted && k.table)
    if (const auto wanted = pick_wanted(k, problem, device)) return *wanted;
  switch (k.kind) {
    case Kind::kRegisters:
      return pick_registers(k, problem, device);
    case Kind::kCluster:
      return pick_cluster(k, problem, device);
    case Kind::kGrid:
      return pick_grid(k, problem, device);
    case Kind::kFolded:
      return pick_folded(k, problem, device);
    case Kind::kStrided:
      return strided_config(k, problem);
    default:
      return pick_passes(k, problem, device);
  }
}

}  // namespace dlblas::kernels
