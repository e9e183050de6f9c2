// See rows_cuda_config.hpp: knobs, traits, what fits. The default: rows_cuda_default.cpp.
#include "kernels/rows_cuda_config.hpp"

#include <algorithm>
#include <bit>

namespace dlblas::kernels {
namespace {

using Kind = RowKernelKind;

constexpr std::int32_t kLanes = 32;  // of a warp
constexpr std::int32_t kVectors[] = {1, 2, 3, 4, 6, 8, 12, 16};
/// Shared memory besides what a program keeps: the slots of the reductions.
constexpr std::int64_t kStaticShared = 1024;
/// Bytes of an access of a row that comes through shared memory: device/row/folded.cuh.
constexpr int kRingAccess = 16;

std::vector<std::int64_t> counted(std::int32_t n) {
  std::vector<std::int64_t> all;
  for (std::int32_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

std::int32_t power_of_2_in(std::int64_t n) {
  return 1 << std::min(4, std::countr_zero(static_cast<std::uint64_t>(n)));
}

/// True if rows may have more than one stride, unlike those of one plain dimension.
bool may_nest(const RowOperator& op) { return op.op.rows.empty(); }

/// True if it has results of rows, which leave L2 sooner if reads use evict_last.
bool writes_rows(const RowOperator& op) {
  return std::any_of(op.operands.begin(), op.operands.end(), [](const RowOperandSpec& spec) {
    return spec.written && has_rows(spec.role) && has_columns(spec.role);
  });
}

/// True if leading dimensions have one stride. Values [*T] have no other dimensions; of heads and
/// layers, [*T, H, D], those between rows and columns may lie anywhere.
bool flattens(const RowOperandSpec& spec, Layout layout, std::int64_t period) {
  if (spec.periodic) return period == 1;
  const bool values = spec.role == RowRole::kValue || spec.role == RowRole::kIndex;
  const bool heads = spec.role == RowRole::kHeads || spec.role == RowRole::kLayers;
  return layout == Layout::kContiguous || (layout == Layout::kRowStrided && !values) ||
         (layout == Layout::kRowsOuter && heads);
}

/// Slots for the accesses of one group of columns, where the program reduces groups: lanes of a
/// warp, a power of 2, or all of them several times.
std::int64_t slots_of_group(std::int64_t accesses) {
  if (accesses > kLanes) return (accesses + kLanes - 1) / kLanes * kLanes;
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, accesses))));
}

bool block_is_valid(const RowKernel& k, const RowTraits& traits, const RowConfig& c,
                    const DeviceInfo& device) {
  const int threads = c.threads * c.rows, warps = (threads + 31) / 32;
  if (threads > 1024 || (c.rows > 15 && c.threads > 32)) return false;
  if (threads < 32 && c.rows * c.threads % 32 != 0 && !is_tiled(k)) return false;
  if (c.threads < 32 && threads % 32 != 0) return false;  // shuffles name whole warps
  if (c.cluster > 1 && (device.arch < 90 || c.cluster > c.threads)) return false;
  const int per_thread = 65536 / (warps * 32 * std::max(1, c.blocks));
  if (warps * 32 * c.blocks > threads_per_unit(device) || per_thread < 24) return false;
  if (!k.op->op.reduces_groups) return true;
  const std::int64_t accesses = traits.group / traits.n, slots = slots_of_group(accesses);
  if (k.kind != Kind::kRegisters && (slots != accesses || slots > kLanes)) return false;
  if (slots <= kLanes) return c.threads % slots == 0;
  return !k.op->op.heads && c.threads % kLanes == 0 && c.vectors % (slots / kLanes) == 0;
}

}  // namespace

std::int32_t default_variant(const RowOp& op, const RowConfig& c) {
  return op.cluster_variants && c.cluster == 1 ? 0 : op.variants - 1;
}

const RowTable* make_row_table(const RowOperator& made, Kind kind) {
  using C = RowConfig;
  const RowOp& op = made.op;
  std::vector<std::int64_t> clusters = {1, 2, 4, 8, 16};
  if (op.selects) clusters = {1};
  const std::vector<std::int64_t> blocks = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16};
  const std::vector<std::int64_t> variants =
      counted(op.cluster_variants && kind == Kind::kRegisters ? 1 : op.variants);
  const bool columns = std::any_of(
      made.operands.begin(), made.operands.end(),
      [](const RowOperandSpec& spec) { return spec.role == RowRole::kColumns && !spec.written; });
  switch (kind) {
    case Kind::kRegisters:
      return new RowTable{
          field<&C::threads>("threads", {4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320,
                                         352, 384, 448, 512, 768, 1024}),
          field<&C::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
          field<&C::rows>("rows", {1, 2, 4, 8, 16, 32}),
          field<&C::evict_last>("evict_last", {0, 1}),
          field<&C::variant>("variant", variants),
          field<&C::blocks>("blocks", blocks),
      };
    case Kind::kCluster:
      return new RowTable{
          field<&C::threads>("threads", {128, 256, 512, 1024}),
          field<&C::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
          field<&C::cluster>("cluster", {2, 4, 8, 16}),
          field<&C::early>(
              "early", columns ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{1}),
          field<&C::evict_last>("evict_last", {0, 1}),
          field<&C::variant>("variant", variants),
          field<&C::blocks>("blocks", blocks),
      };
    case Kind::kGrid:
      return new RowTable{
          field<&C::threads>("threads", {256, 512}),
          field<&C::vectors>("vectors", {2, 4, 8}),
          field<&C::variant>("variant", {op.variants - 1}),
          field<&C::blocks>("blocks", {1, 2, 3}),
      };
    case Kind::kFolded:
      return new RowTable{
          field<&C::threads>("threads", {4, 8, 16, 32, 64, 128, 256, 512, 1024}),
          field<&C::vectors>("vectors", {1, 2, 3, 4}),
          field<&C::rows>("rows", {1, 2, 3, 4, 8, 16, 32}),
          field<&C::blocks>("blocks", {1, 2, 3, 4, 6, 8}),
          field<&C::ahead>("ahead", {1, 2, 3, 4, 6}),
      };
    case Kind::kShared:
    case Kind::kRows:
      return new RowTable{
          field<&C::threads>("threads", {128, 256, 512, 1024}),
          field<&C::vectors>("vectors", {1, 2, 4}),
          field<&C::cluster>("cluster", clusters),
          field<&C::keep>("keep", {kind == Kind::kShared}),
          field<&C::variant>("variant", variants),
          field<&C::blocks>("blocks", blocks),
      };
    default:
      return nullptr;
  }
}

/// An access is 16 bytes of the widest elements of rows (of heads, where there are any), or less
/// where width, groups or alignment require it.
RowTraits traits_of(const RowKernel& k, const Problem& problem) {
  RowTraits traits;
  for (DType& type : traits.types) type = DType::kF32;
  traits.operands = static_cast<std::int32_t>(k.op->operands.size());
  traits.n = 16;
  traits.nested = traits.strided = k.kind == Kind::kStrided;
  traits.shape = shape_of(*k.op, problem);
  const RowShape& shape = traits.shape;
  // No access crosses the end of a head.
  const std::int64_t width =
      k.op->op.heads ? shape.head_width | shape.split | shape.shifts : columns_of(*k.op, problem);
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    const TensorTraits& t = problem.tensors[spec.tensor];
    if (t.dtype == DType::kAbsent) continue;
    const int size = size_of(t.dtype), align = 1 << t.align_log2;
    if (align < size) traits.aligned = false;
    if (has_rows(spec.role) && may_nest(*k.op) &&
        !flattens(spec, t.layout, period_of(*k.op, problem.dims)))
      traits.nested = true;
    if (t.dtype > DType::kI8) continue;
    traits.types[i] = t.dtype;
    if (!has_columns(spec.role) || (k.op->folded >> i & 1u)) continue;
    const int span = spec.spanned() ? shape.span : 1;
    const int leading_span = k.op->op.seldom_pairs ? 1 : span;
    const bool leads = k.op->op.heads ? spec.role == RowRole::kHeads : spec.is_row();
    traits.n = std::min({traits.n, power_of_2_in(width), leads ? 16 / size / leading_span : 16});
    while (traits.n > 1 && align < std::min(16, traits.n * size * span)) traits.n /= 2;
  }
  if (k.kind == Kind::kStrided || !traits.aligned) traits.n = 1;
  traits.group = group_of(*k.op, problem.dims);
  if (traits.group >= width && !k.op->op.reduces_groups) traits.group = 0;
  while (traits.group % traits.n != 0) traits.n /= 2;
  // A program keeps its inputs' accesses in whole 32-bit words.
  for (std::size_t i = 0; i < k.op->operands.size() && k.kind == Kind::kShared; ++i)
    if (k.op->kept >> i & 1u)
      traits.kept += k.op->operands[i].times * std::max(4, traits.n * size_of(traits.types[i]));
  if (k.kind == Kind::kShared) traits.kept += k.op->op.kept_values * traits.n * 4;
  if (k.op->op.reduces_groups) traits.kept *= 2;  // what a group's total changes, and its padding
  traits.folded = k.op->folded;
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    if (spec.written) continue;
    if (spec.periodic) traits.periodic |= 1u << i;
    if (k.kind == Kind::kFolded && spec.is_row() &&
        problem.tensors[spec.tensor].dtype != DType::kAbsent)
      traits.streamed |= 1u << i;
  }
  if (k.op->op.choose) k.op->op.choose(problem, traits.options);
  return traits;
}

bool has_grid(const RowOperator& op) { return op.op.reduces && op.op.variants == 2; }

std::int64_t grid_blocks(const RowConfig& c, const DeviceInfo& device) {
  return std::int64_t{device.units} * c.blocks;
}

std::int64_t accesses(const RowKernel& k, const Problem& problem) {
  const RowTraits traits = traits_of(k, problem);
  return accesses_of(columns_of(*k.op, problem), traits.n, lane_group(k, traits));
}

std::int32_t lane_group(const RowKernel& k, const RowTraits& traits) {
  return k.kind == Kind::kRegisters && k.op->op.reduces_groups ? traits.group : 0;
}

std::int64_t accesses_of(std::int64_t width, std::int64_t n, std::int64_t group) {
  if (group == 0) return (width + n - 1) / n;
  return width / group * slots_of_group(group / n) + (width % group + n - 1) / n;
}

std::int64_t tiles_of(std::int64_t accesses, const RowConfig& c) {
  const std::int64_t held = std::int64_t{c.threads} * c.vectors;
  return std::max<std::int64_t>(1, (accesses + held - 1) / held);
}

namespace {

/// Bytes of shared memory per access of the row that waits: grid_waiting() of device/row/grid.cuh.
std::int64_t grid_waiting(const RowTraits& traits) {
  return std::max(4, traits.n * size_of(traits.types[0]));
}

/// Bytes per access of the vectors over columns, if shared memory holds a block's beside the row
/// that waits; else 0.
std::int32_t columns_kept(const RowKernel& k, const Problem& problem, const RowTraits& traits,
                          const RowConfig& c) {
  constexpr std::int64_t kRoom = 200 << 10, kAllRoom = 216 << 10;  // of a block; of all
  std::int32_t bytes = 0;
  bool any = false;
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    if (spec.role != RowRole::kColumns || spec.written) continue;
    bytes += std::max(4, traits.n * size_of(traits.types[i]));
    any |= problem.tensors[spec.tensor].dtype != DType::kAbsent;
  }
  const std::int64_t all = (bytes + grid_waiting(traits)) * c.threads * c.vectors;
  return any && all <= kRoom && all * c.blocks <= kAllRoom ? bytes : 0;
}

}  // namespace

RowTraits traits_with(const RowKernel& k, const Problem& problem, const RowConfig& c) {
  RowTraits traits = traits_of(k, problem);
  const std::int64_t held = std::int64_t{c.threads} * c.vectors * c.cluster;
  const std::int64_t row = accesses(k, problem), width = columns_of(*k.op, problem);
  const bool held_once =
      k.kind == Kind::kRegisters || k.kind == Kind::kCluster || k.kind == Kind::kFolded;
  const bool cut = !k.op->op.heads && problem.dims[k.op->width] > kMaxRowWidth;
  traits.full =
      held_once && !cut && row * traits.n == width && (is_tiled(k) ? row % held == 0 : held == row);
  if (k.kind == Kind::kGrid) traits.kept = columns_kept(k, problem, traits, c);
  if (k.op->folds_groups) traits.fold_lanes = fold_lanes(traits, c.threads);
  return traits;
}

std::int32_t fold_lanes(const RowTraits& traits, std::int32_t threads) {
  const std::int32_t accesses = traits.group > 0 ? traits.group / traits.n : 32;
  std::int32_t lanes = 1;
  while (lanes < 32 && accesses % (2 * lanes) == 0 && threads % (2 * lanes) == 0) lanes *= 2;
  return lanes;
}

std::int32_t row_vectors_for(std::int64_t accesses, std::int64_t threads) {
  for (const std::int32_t vectors : kVectors)
    if (vectors * threads >= accesses) return vectors;
  return 0;
}

std::int64_t kept_bytes(const RowKernel& k, const Problem& problem, const RowConfig& c) {
  if (k.kind == Kind::kGrid) {
    const RowTraits traits = traits_with(k, problem, c);
    return (traits.kept + grid_waiting(traits)) * c.threads * c.vectors;
  }
  if (k.kind == Kind::kFolded)
    return std::int64_t{c.ahead + 1} * std::popcount(traits_of(k, problem).streamed) * kRingAccess *
           c.vectors * c.threads * c.rows;
  if (k.kind != Kind::kShared) return 0;
  const RowTraits traits = traits_of(k, problem);
  const std::int64_t whole = k.op->op.reduces_groups ? traits.group / traits.n
                             : k.op->folds_groups    ? fold_lanes(traits, c.threads)
                                                     : 1;
  const std::int64_t parts = c.cluster * whole;
  return (accesses(k, problem) + parts - 1) / parts * whole * traits.kept;
}

std::int64_t shared_room(const DeviceInfo& device) {
  return device.shared_bytes_per_block - kStaticShared;
}

int threads_per_unit(const DeviceInfo& device) {
  return device.arch == 86 || device.arch == 89 || device.arch >= 120 ? 1536 : 2048;
}

bool may_evict_last(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  constexpr double kMinCaches = 8;  // docs/notes/norm_kernels.md has the measurement
  if (!writes_rows(*k.op)) return false;
  return traits_of(k, problem).n > 1 && accesses(k, problem) >= 256 &&
         bytes_of(*k.op, problem) > kMinCaches * static_cast<double>(device.l2_bytes);
}

bool reads_in_ring(const RowKernel& k, const Problem& problem) {
  const RowTraits traits = traits_of(k, problem);
  if (!traits.aligned) return false;
  for (int i = 0; i < kMaxRowOperands; ++i)
    if ((traits.streamed >> i & 1u) && traits.n * size_of(traits.types[i]) != kRingAccess)
      return false;
  return traits.streamed != 0;
}

int folded_registers(const RowKernel& k, const Problem& problem, const RowTraits& traits,
                     const RowConfig& c) {
  constexpr int kOthers = 44;
  int words = std::popcount(k.op->folded) * traits.n;
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    if (!spec.written && has_columns(spec.role) &&
        problem.tensors[spec.tensor].dtype != DType::kAbsent)
      words += traits.n * size_of(traits.types[i]) / 4;
  }
  if (size_of(traits.types[0]) < 4) words += traits.n / 2;  // a row that stays as f32
  return kOthers + c.vectors * words;
}

std::int64_t folded_blocks(const RowConfig& c, std::int64_t units, std::int64_t rows,
                           std::int64_t period) {
  const std::int64_t all = (rows + period - 1) / period, groups = (all + c.rows - 1) / c.rows;
  const std::int64_t short_chains = (groups + kMaxFoldedRows - 1) / kMaxFoldedRows;
  return period * std::min(std::max(units * c.blocks / period, short_chains), groups);
}

bool fits(const RowKernel& k, const Problem& problem, const RowConfig& c,
          const DeviceInfo& device) {
  const RowTraits traits = traits_of(k, problem);
  if (!block_is_valid(k, traits, c, device)) return false;
  const std::int64_t row = accesses(k, problem);
  if (k.kind == Kind::kGrid) {
    const std::int64_t threads = grid_blocks(c, device) * c.threads, warps = c.threads / 32 + 1;
    const std::int64_t held = threads * c.vectors;
    // layer_norm without weight and bias spilled 16 bytes with 8 accesses at 96 registers.
    const bool bare = k.op->op.late_access_registers > 0 && traits_with(k, problem, c).kept == 0;
    if ((kept_bytes(k, problem, c) + kStaticShared) * c.blocks > device.shared_bytes_per_block)
      return false;
    const int needed = bare ? 64 + 8 * c.vectors : 40;
    return held >= row && held < 2 * row && 65536 / (warps * 32 * c.blocks) >= needed;
  }
  if (k.kind == Kind::kFolded) {
    const int warps = (c.threads * c.rows + 31) / 32;
    if (folded_registers(k, problem, traits, c) > std::min(255, 65536 / (warps * 32 * c.blocks)))
      return false;
    // With a block's reduction slots.
    if ((kept_bytes(k, problem, c) + kStaticShared) * c.blocks > device.shared_bytes_per_block)
      return false;
  }
  if (c.variant > 0 && k.op->op.cluster_variants && c.cluster == 1) return false;
  if (k.kind == Kind::kShared || k.kind == Kind::kRows) {
    // A thread adds its accesses up in one f32 chain: with millions of columns, chains of few
    // threads are too long (layer_norm 4194304 wide, 2048 accesses: twice the bound).
    constexpr std::int64_t kLongestChain = 512;
    const std::int64_t at_once = std::int64_t{c.threads} * c.vectors * c.cluster;
    if (k.op->op.reduces && c.threads < 1024 && row > kLongestChain * at_once) return false;
    return kept_bytes(k, problem, c) <= shared_room(device);
  }
  if (c.evict_last && !may_evict_last(k, problem, device)) return false;
  const std::int64_t threads = std::int64_t{c.threads} * c.cluster;
  if (is_tiled(k)) {
    if (c.vectors > 4 || (c.rows > 1 && tiles_of(row, c) > 1)) return false;
    const std::int64_t head = accesses_of(traits.shape.head_width, traits.n, lane_group(k, traits));
    if (traits.shape.whole && tiles_of(row, c) > 1 && threads * c.vectors % head != 0) return false;
    return c.threads == 4 || threads * c.vectors < 2 * row;
  }
  return c.vectors == row_vectors_for(row, threads) && (c.threads == 4 || threads < 2 * row);
}

}  // namespace dlblas::kernels
