// Row programs on CUDA devices: which kernels may run a problem, with which configurations, the
// default among them, its estimate, source and launch.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: device/row/registers.cuh,
// passes.cuh (the kernels).
#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "cuda/cuda.hpp"
#include "kernels/row_fold.hpp"
#include "kernels/row_operator.hpp"
#include "registry/registry.hpp"

namespace dlblas::kernels {
namespace {

using Kind = RowKernelKind;
constexpr int kNumKinds = 5;
constexpr const char* kNames[kNumKinds] = {"cuda_registers", "cuda_cluster", "cuda_shared",
                                           "cuda_rows", "cuda_strided"};

constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 30;
/// Accesses of a row below which a cluster is not worth its reduction.
constexpr std::int64_t kMinClusterAccesses = 2048;
constexpr std::int32_t kVectors[] = {1, 2, 3, 4, 6, 8, 12, 16};
/// Beside what a program keeps in shared memory: the slots of the reductions.
constexpr std::int64_t kStaticShared = 1024;
constexpr std::int32_t kStridedThreads = 256;

using Table = ConfigTable<RowConfig>;

/// An operator as one of the kernels; Implementation::user.
struct RowKernel {
  const RowOperator* op;
  Kind kind;
  const Table* table;
};

std::vector<std::int64_t> counted(std::int32_t n) {
  std::vector<std::int64_t> all;
  for (std::int32_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

/// The order is RowConfig's; what a table leaves out keeps the aggregate's default.
const Table* make_table(const RowOp& op, Kind kind) {
  using C = RowConfig;
  std::vector<std::int64_t> clusters = {1, 2, 4, 8, 16};
  if (op.selects) clusters = {1};
  const std::vector<std::int64_t> blocks = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16};
  const std::vector<std::int64_t> variants = counted(op.variants);
  switch (kind) {
    case Kind::kRegisters:
      return new Table{
          field<&C::threads>("threads", {4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320,
                                         352, 384, 448, 512, 768, 1024}),
          field<&C::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
          field<&C::rows>("rows", {1, 2, 4, 8, 16, 32}),
          field<&C::evict_last>("evict_last", {0, 1}),
          field<&C::variant>("variant", variants),
          field<&C::blocks>("blocks", blocks),
      };
    case Kind::kCluster:
      return new Table{
          field<&C::threads>("threads", {128, 256, 512, 1024}),
          field<&C::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
          field<&C::cluster>("cluster", {2, 4, 8, 16}),
          field<&C::evict_last>("evict_last", {0, 1}),
          field<&C::variant>("variant", variants),
          field<&C::blocks>("blocks", blocks),
      };
    case Kind::kShared:
    case Kind::kRows:
      return new Table{
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

bool has_plain_rows(Layout layout) {
  return layout == Layout::kContiguous || layout == Layout::kRowStrided;
}
bool has_unit_columns(Layout layout) {
  return has_plain_rows(layout) || layout == Layout::kRowsOuter;
}

std::int32_t power_of_2_in(std::int64_t n) {
  return 1 << std::min(4, std::countr_zero(static_cast<std::uint64_t>(n)));
}

/// May rows have more than one stride? Those of one plain dimension have not.
bool may_nest(const RowOperator& op) { return op.op.rows.empty(); }

/// The traits of a problem's kernels, but for `full`. An access is 16 bytes of the widest elements
/// of rows (of heads, where there are any), or what width, groups and alignment leave of it.
RowTraits traits_of(const RowKernel& k, const Problem& problem) {
  RowTraits traits;
  for (FloatType& type : traits.types) type = FloatType::kF32;
  traits.n = 16;
  traits.nested = traits.strided = k.kind == Kind::kStrided;
  traits.shape = shape_of(*k.op, problem);
  const RowShape& shape = traits.shape;
  // No access reaches over a head's end.
  const std::int64_t width =
      k.op->op.heads ? shape.head_width | shape.split : problem.dims[k.op->width];
  for (std::size_t i = 0; i < k.op->operands.size(); ++i) {
    const RowOperandSpec& spec = k.op->operands[i];
    const TensorTraits& t = problem.tensors[spec.tensor];
    if (t.dtype == DType::kAbsent) continue;
    const int size = size_of(t.dtype), align = 1 << t.align_log2;
    if (align < size) traits.aligned = false;
    if (t.dtype > DType::kI8) continue;
    traits.types[i] = static_cast<FloatType>(t.dtype);
    if (!has_columns(spec.role) || (k.op->folded >> i & 1u)) continue;
    const int span = spec.spanned() ? shape.span : 1;
    const RowRole leading = k.op->op.heads ? RowRole::kHeads : RowRole::kRow;
    traits.n =
        std::min({traits.n, power_of_2_in(width), spec.role == leading ? 16 / size / span : 16});
    while (traits.n > 1 && align < std::min(16, traits.n * size * span)) traits.n /= 2;
    if (t.layout == Layout::kRowsOuter && has_rows(spec.role) && may_nest(*k.op))
      traits.nested = true;
  }
  if (k.kind == Kind::kStrided || !traits.aligned) traits.n = 1;
  traits.group = group_of(*k.op, problem.dims);
  if (traits.group >= width && !k.op->op.reduces_groups) traits.group = 0;
  while (traits.group % traits.n != 0) traits.n /= 2;
  // A program keeps words of its inputs' accesses.
  for (std::size_t i = 0; i < k.op->operands.size() && k.kind == Kind::kShared; ++i)
    if (k.op->kept >> i & 1u)
      traits.kept += k.op->operands[i].times * std::max(4, traits.n * size_of(traits.types[i]));
  if (k.op->op.reduces_groups) traits.kept *= 2;  // what a group's total changes, and its padding
  traits.folded = k.op->folded;
  if (k.op->op.choose) k.op->op.choose(problem, traits.options);
  return traits;
}

std::int64_t accesses(const RowKernel& k, const Problem& problem) {
  const std::int32_t n = traits_of(k, problem).n;
  return (columns_of(*k.op, problem) + n - 1) / n;
}

/// Programs that reduce no rows are cut into tiles.
bool is_tiled(const RowKernel& k) { return !k.op->op.reduces; }

std::int64_t tiles_of(std::int64_t width, const RowTraits& traits, const RowConfig& c) {
  const std::int64_t columns = std::int64_t{c.threads} * c.vectors * traits.n;
  return std::max<std::int64_t>(1, (width + columns - 1) / columns);
}

RowTraits traits_with(const RowKernel& k, const Problem& problem, const RowConfig& c) {
  RowTraits traits = traits_of(k, problem);
  const std::int64_t columns = std::int64_t{c.threads} * c.vectors * c.cluster * traits.n;
  const std::int64_t width = columns_of(*k.op, problem);
  traits.full = (k.kind == Kind::kRegisters || k.kind == Kind::kCluster) &&
                (is_tiled(k) ? width % columns == 0 : columns == width);
  return traits;
}

// ---- which configurations fit ----

int threads_per_unit(const DeviceInfo& device) {
  return device.arch == 86 || device.arch == 89 || device.arch >= 120 ? 1536 : 2048;
}

/// As many blocks a multiprocessor as the descriptor's registers allow; 0: not one.
std::int32_t blocks_for(const RowKernel& k, const Problem& problem, const RowConfig& c,
                        const DeviceInfo& device) {
  const int threads = (c.threads * c.rows + 31) / 32 * 32;
  const RowOp& op = k.op->op;
  const int needed = op.tuning ? op.tuning->registers(traits_with(k, problem, c), c)
                               : op.registers + c.vectors * op.access_registers;
  const int most = std::min(65536 / (needed * threads), threads_per_unit(device) / threads);
  std::int32_t found = 0;
  for (const std::int64_t b : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16})
    if (b <= most) found = static_cast<std::int32_t>(b);
  return found;
}

/// What a block of the kShared kernel keeps.
std::int64_t kept_bytes(const RowKernel& k, const Problem& problem, const RowConfig& c) {
  if (k.kind != Kind::kShared) return 0;
  const RowTraits traits = traits_of(k, problem);
  const std::int64_t whole = k.op->op.reduces_groups ? traits.group / traits.n : 1;
  const std::int64_t parts = c.cluster * whole;
  return (accesses(k, problem) + parts - 1) / parts * whole * traits.kept;
}

std::int64_t shared_room(const DeviceInfo& device) {
  return device.shared_bytes_per_block - kStaticShared;
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
  const int lanes = traits.group / traits.n;
  return lanes <= 32 && 32 % lanes == 0 && c.threads % lanes == 0;
}

bool may_evict_last(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  constexpr double kMinCaches = 8;  // ops/norm/README.md has the measurement
  return traits_of(k, problem).n > 1 && accesses(k, problem) >= 256 &&
         bytes_of(*k.op, problem) > kMinCaches * static_cast<double>(device.l2_bytes);
}

bool fits(const RowKernel& k, const Problem& problem, const RowConfig& c,
          const DeviceInfo& device) {
  const RowTraits traits = traits_of(k, problem);
  if (!block_is_valid(k, traits, c, device)) return false;
  const std::int64_t row = accesses(k, problem);
  if (k.kind == Kind::kShared || k.kind == Kind::kRows)
    return kept_bytes(k, problem, c) <= shared_room(device);
  if (c.evict_last && !may_evict_last(k, problem, device)) return false;
  const std::int64_t threads = std::int64_t{c.threads} * c.cluster;
  if (is_tiled(k)) {
    if (c.vectors > 4 || (c.rows > 1 && tiles_of(columns_of(*k.op, problem), traits, c) > 1))
      return false;
    return c.threads == 4 || threads * c.vectors < 2 * row;
  }
  return c.vectors == row_vectors_for(row, threads) && (c.threads == 4 || threads < 2 * row);
}

// ---- the default ----

/// `c` with blocks as the descriptor's registers allow; does it fit?
bool complete(const RowKernel& k, const Problem& problem, const DeviceInfo& device, RowConfig& c) {
  c.blocks = blocks_for(k, problem, c, device);
  return c.blocks > 0 && fits(k, problem, c, device);
}

/// Accesses of a thread: the fewer bytes an access moves, the more of them are in flight, as long
/// as they leave every thread of the device some. bf16 on H200, 2026-11-23: to f8 by a given scale
/// (24 bytes) 16384×4096 128 threads × 4 vectors 49.4 µs, × 2 51.0, 256 × 1 59.3; silu_and_mul (48)
/// × 1.
std::int32_t vectors_of_tiles(const RowKernel& k, const Problem& problem,
                              const DeviceInfo& device) {
  const std::int64_t rows = std::max<std::int64_t>(1, problem.dims[k.op->rows]);
  const std::int64_t all = rows * accesses(k, problem);
  const double bytes =
      bytes_of(*k.op, problem) / static_cast<double>(std::max<std::int64_t>(1, all));
  std::int32_t vectors = bytes <= 28 ? 4 : bytes <= 40 ? 2 : 1;
  while (vectors > 1 && all / vectors < std::int64_t{2} * device.units * threads_per_unit(device))
    vectors /= 2;
  return vectors;
}

/// Lanes without work, and blocks so small or large that a multiprocessor holds fewer threads.
double waste_of(const RowConfig& c, std::int64_t row) {
  const std::int64_t wide = std::int64_t{c.threads} * c.vectors, tiles = (row + wide - 1) / wide;
  const int threads = c.threads * c.rows, block = threads * c.vectors;
  const double size = block < 128                    ? 1.5
                      : block < 256 || threads > 512 ? 1.1
                      : threads < 128                ? 1.05
                                                     : 1;
  return static_cast<double>(tiles * wide) / static_cast<double>(row) * size;
}

/// Tiles of whole rows where threads divide a row, 256 or more a block: silu_and_mul
/// 16384×(2·11264) bf16 on H200, 2026-11-22: 352 threads × 1 × 4 tiles 254 µs, as a copy.
RowConfig pick_tiles(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  const std::int64_t row = accesses(k, problem);
  const RowTraits traits = traits_of(k, problem);
  const bool heads = traits.shape.head_width > 0;
  const std::int32_t wanted = heads ? 2 : vectors_of_tiles(k, problem, device);
  RowConfig best;
  best.threads = 0;
  double least = 1e9;
  for (const std::int64_t threads : k.table->knobs()[0].values) {
    for (std::int32_t vectors = wanted; vectors > 0; vectors /= 2) {
      RowConfig c;
      c.threads = static_cast<std::int32_t>(threads);
      c.vectors = vectors;
      const std::int64_t wide = threads * vectors;
      // Two accesses of a thread at the same columns of two heads share what the heads share.
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
  return best;
}

/// Does the program read vectors over columns? They wait in registers beside the row.
bool reads_columns(const RowKernel& k, const Problem& problem) {
  for (const RowOperandSpec& spec : k.op->operands)
    if (spec.role == RowRole::kColumns && !spec.written &&
        problem.tensors[spec.tensor].dtype != DType::kAbsent)
      return true;
  return false;
}

/// The fewest threads that hold the row in few vectors, else in many. With softmax, bf16 on H200,
/// 2026-11-22: 16384×4096 128 threads × 4 vectors × 4 rows, 4096×8192 512 × 2, 131072×128 8 × 2 ×
/// 16, 128×4096 256 × 2, all within 2 % of a copy. With layer_norm, whose columns take registers as
/// well, a row a block: 128 × 4 × 1 66.3 µs, × 2 and × 4, which spill, 93; 4096×8192 256 × 4 34.2,
/// 512 × 2 39.
RowConfig pick_registers(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  if (is_tiled(k)) return pick_tiles(k, problem, device);
  const bool few = problem.dims[k.op->rows] <= 2 * device.units;
  const std::int64_t row = accesses(k, problem);
  const bool brief = row <= 64, columns = reads_columns(k, problem);
  RowConfig c;
  for (const int most : {few || brief || (row > 512 && !columns) ? 2 : 4, 4, 8, 16}) {
    for (const std::int32_t threads : {4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
      if (threads == 1024 && most < 16) continue;  // one block alone on a multiprocessor
      c.threads = threads;
      c.vectors = row_vectors_for(row, threads);
      if (c.vectors == 0 || c.vectors > most) continue;
      c.evict_last = may_evict_last(k, problem, device);
      const int block = few ? 32 : brief || columns ? 128 : 512;
      for (c.rows = std::clamp(block / threads, 1, 32); c.rows >= 1; c.rows /= 2)
        if (complete(k, problem, device, c)) return c;
    }
  }
  c.threads = 0;
  return c;
}

/// Many vectors, and few blocks in a cluster: softmax 1024×65536, bf16 on an H200, 2026-11-22: 256
/// threads × 8 vectors × 4 blocks 69.2 µs, 256 × 4 × 8 70.5, 128 × 16 × 4 73.1, 128 × 8 × 8 80 (a
/// copy 66). Fewer where columns take registers: layer_norm, the same, 256 × 4 × 8 82.5, 256 × 8 ×
/// 4 96.
RowConfig pick_cluster(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  RowConfig c;
  c.evict_last = may_evict_last(k, problem, device);
  c.variant = k.op->op.variants - 1;
  for (const int most : {reads_columns(k, problem) ? 4 : 8, 8, 16}) {
    for (const std::int32_t threads : {256, 512, 1024}) {
      for (c.cluster = 2; c.cluster <= 16; c.cluster *= 2) {
        c.threads = threads;
        c.vectors = row_vectors_for(accesses(k, problem), std::int64_t{threads} * c.cluster);
        if (c.vectors > 0 && c.vectors <= most && complete(k, problem, device, c)) return c;
      }
    }
  }
  c.threads = 0;
  return c;
}

/// The smallest cluster that leaves two blocks room on a multiprocessor and fills the device.
RowConfig pick_passes(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  RowConfig c;
  c.keep = k.kind == Kind::kShared;
  c.variant = k.op->op.variants - 1;
  const std::int64_t row = accesses(k, problem),
                     rows = std::max<std::int64_t>(1, problem.dims[k.op->rows]);
  const int most = device.arch < 90 || k.op->op.selects ? 1 : 16;
  for (const std::int64_t room : {shared_room(device) / 2, shared_room(device)}) {
    for (c.cluster = 1; c.cluster <= most; c.cluster *= 2) {
      const std::int64_t part = row / c.cluster;
      const bool fills = rows * c.cluster >= 2 * device.units || c.cluster == most || part < 1024;
      c.threads = part >= 4096 ? 1024 : part >= 2048 ? 512 : part >= 1024 ? 256 : 128;
      for (c.vectors = 4; c.vectors >= 1; c.vectors /= 2)
        if (fills && kept_bytes(k, problem, c) <= room && complete(k, problem, device, c)) return c;
    }
  }
  c.threads = 0;
  return c;
}

RowConfig strided_config(const RowKernel& k) {
  RowConfig c;
  c.threads = kStridedThreads;
  c.vectors = 1;
  c.keep = c.early = false;
  c.variant = k.op->op.variants - 1;
  return c;
}

RowConfig pick_wanted(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  const RowTraits traits = traits_of(k, problem);
  const RowQuery asked = {k.kind, problem.dims[k.op->rows], accesses(k, problem), traits, device};
  const bool may_evict = (k.kind == Kind::kRegisters || k.kind == Kind::kCluster) &&
                         may_evict_last(k, problem, device);
  const std::vector<RowConfig> wanted = k.op->op.tuning->wanted(asked);
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

/// threads = 0: none fits.
RowConfig pick(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  if (k.op->op.tuning && k.table) return pick_wanted(k, problem, device);
  switch (k.kind) {
    case Kind::kRegisters:
      return pick_registers(k, problem, device);
    case Kind::kCluster:
      return pick_cluster(k, problem, device);
    case Kind::kStrided:
      return strided_config(k);
    default:
      return pick_passes(k, problem, device);
  }
}

// ---- the contract of an implementation ----

RowConfig config_of(const RowKernel& k, const Config& config) {
  return k.table ? k.table->from_config(config) : strided_config(k);
}

Support supports(const Query& q) {
  const RowKernel& k = q.user<RowKernel>();
  const Problem& problem = q.problem;
  const std::int64_t rows = problem.dims[k.op->rows], width = columns_of(*k.op, problem);
  if (width > kMaxWidth) return Support::no("rows of more than {} columns", kMaxWidth);
  const std::int64_t most = kMaxGrid / (is_tiled(k) ? 64 : 16);  // tiles, or blocks of a cluster
  if (rows > most) return Support::no("more than {} rows", most);
  if (k.kind == Kind::kStrided) return Support::yes();
  for (const RowOperandSpec& spec : k.op->operands) {
    const TensorTraits& t = problem.tensors[spec.tensor];
    if (t.dtype == DType::kAbsent || !(has_columns(spec.role) || has_rows(spec.role))) continue;
    if (spec.role == RowRole::kIndex) continue;
    if (t.layout == Layout::kTransposed || t.layout == Layout::kOther)
      return Support::no_in_words(spec.not_contiguous);
    if (spec.role == RowRole::kColumns ? t.layout != Layout::kContiguous
                                       : !has_unit_columns(t.layout))
      return Support::no_in_words(spec.mixed_strides);
  }
  const std::int64_t row = accesses(k, problem);
  if (k.kind == Kind::kCluster && row < kMinClusterAccesses)
    return Support::no("a row has {} accesses; fewer than {} are not worth a cluster", row,
                       kMinClusterAccesses);
  if (pick(k, problem, q.device).threads > 0) return Support::yes();
  if (k.kind == Kind::kShared)
    return Support::no("a row has {} accesses; more than shared memory holds", row);
  return Support::no("a row has {} accesses; more than the threads' registers hold", row);
}

/// Where a call asks for the same bits in any batch (kDeterministic), one kernel and one
/// configuration serve a width: those that this problem gets, which has a fixed number of rows.
Problem typical(const RowKernel& k, const Problem& problem) {
  Problem p = problem;
  p.dims[k.op->rows] = 1024;
  p.flags &= static_cast<std::uint8_t>(~kDeterministic);
  return p;
}

/// The first of the kernels that takes it.
Support same_bits(const Query& q) {
  const Problem p = typical(q.user<RowKernel>(), q.problem);
  for (const Implementation* other : Registry::process().by_id(q.problem.op).candidates()) {
    if (other->supports != supports || q.device.arch < other->min_arch) continue;
    if (!supports({p, q.device, *other})) continue;
    if (other == &q.self) return Support::yes();
    break;
  }
  return Support::no("has other bits than the kernel that serves this width in any batch");
}

RowConfig pick_for(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  if (problem.flags & kDeterministic) {
    const RowConfig one = pick(k, typical(k, problem), device);
    if (one.threads > 0) return one;
  }
  return pick(k, problem, device);
}

void constrain(const Query& q, Space& space) {
  const RowKernel& k = q.user<RowKernel>();
  if (q.problem.flags & kDeterministic) {
    space.require_only("the same bits: one configuration a width",
                       k.table->to_config(pick_for(k, q.problem, q.device)));
    return;
  }
  space.require(*k.table,
                "the accesses hold the row, no fewer would, and the block has room for them",
                [&k, q = QueryCopy(q)](const RowConfig& c) {
                  const Query asked = q;
                  return fits(k, asked.problem, c, asked.device);
                });
}

Config heuristic(const Query& q) {
  const RowKernel& k = q.user<RowKernel>();
  return k.table->to_config(pick_for(k, q.problem, q.device));
}

RowCost cost_of(const RowKernel& k, const Query& q, const RowConfig& c) {
  const bool alone = kept_bytes(k, q.problem, c) > shared_room(q.device) / 2;
  if (k.op->op.tuning) {
    const RowTraits traits = traits_of(k, q.problem);
    return k.op->op.tuning->cost(
        {k.kind, q.problem.dims[k.op->rows], accesses(k, q.problem), traits, q.device}, c, alone);
  }
  double share = 1;
  if (k.kind == Kind::kCluster) share = 1.05;
  if (k.kind == Kind::kShared) share = alone ? 1.2 : 1.08;
  if (k.kind == Kind::kRows) share = 1.5;
  if (k.kind == Kind::kStrided) share = 10;
  if (k.kind != Kind::kRegisters && c.cluster > 1) share += 0.02;
  return {share, 0};
}

/// Bytes at the rate of a copy. The one model of a memory-bound kernel: H200 0.975 of what memory
/// sustains over 132 multiprocessors, of which one alone reaches about three times its share.
double estimate(const Query& q, const Config& config) {
  constexpr double kCopy = 0.975;
  const RowKernel& k = q.user<RowKernel>();
  const DeviceInfo& device = q.device;
  const RowConfig c = config_of(k, config);
  RowCost cost = cost_of(k, q, c);
  const double rows = std::max<double>(1, static_cast<double>(q.problem.dims[k.op->rows]));
  const double blocks = is_tiled(k) ? static_cast<double>(device.units) : rows * c.cluster;
  const double busy = std::min<double>(blocks, device.units);
  // The kernels that fold read the rows once more.
  const double launches = (k.op->folded ? 3 : 1) * launch_s(device);
  if (k.op->folded) cost.share += 0.7;
  const double rate = std::min(kCopy * memory_bytes_per_s(device),
                               std::max(1.0, busy) * unit_rates(device).alone_bytes_per_s);
  return cost.ms + 1e3 * (launches + cost.share * bytes_of(*k.op, q.problem) / rate);
}

/// What `prepare` leaves for the calls.
struct State {
  const RowKernel* kernel;
  RowConfig config;
  std::int32_t n;  // of the traits
  std::int32_t options[kMaxRowOptions];
  std::int32_t shared_bytes;
  std::int64_t stats_bytes;  // of the workspace's first, where results are folded
  bool nested, dependent;
  RowShape shape;
};

CudaParts parts_of(const State& state, std::int64_t rows, std::int32_t width) {
  return cuda_parts(rows, (std::int64_t{width} + state.n - 1) / state.n);
}

/// The arguments of a call's kernels.
NestedRowCall call_of(const State& state, const Args& args, void* workspace) {
  NestedRowCall call;
  fill_call(*state.kernel->op, state.shape, args, call, state.nested ? &call.nest : nullptr);
  std::copy_n(state.options, kMaxRowOptions, call.options);
  call.folds = {};
  if (state.kernel->op->folded == 0) return call;
  const CudaParts parts = parts_of(state, call.rows, call.width);
  call.folds = {workspace,
                reinterpret_cast<float*>(static_cast<char*>(workspace) + state.stats_bytes),
                static_cast<std::int32_t>(parts.rows), static_cast<std::int32_t>(parts.parts)};
  return call;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const RowConfig& c = state.config;
  NestedRowCall call = call_of(state, args, workspace);
  if (call.rows == 0 || (call.folds.stats && call.width == 0)) return 0;
  cuda::Launch how;
  std::int64_t blocks = (call.rows + c.rows - 1) / c.rows * c.cluster;
  if (state.kernel->kind == Kind::kRegisters && is_tiled(*state.kernel)) {
    RowTraits traits;
    traits.n = state.n;
    call.tiles = static_cast<std::uint32_t>(tiles_of(call.width, traits, c));
    blocks *= call.tiles;
  }
  how.grid.x = static_cast<unsigned>(blocks);
  how.block.x = static_cast<unsigned>(c.threads * c.rows);
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  how.cluster = static_cast<unsigned>(c.cluster);
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[0], how, &call, sizeof call, context.stream);
}

/// Partial sums of the results that are folded.
int run_fold(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  NestedRowCall call = call_of(state, args, workspace);
  if (call.rows == 0 || call.width == 0) return 0;
  const CudaParts parts = parts_of(state, call.rows, call.width);
  call.tiles = static_cast<std::uint32_t>(parts.tiles);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(parts.tiles * parts.parts);
  how.block.x = static_cast<unsigned>(parts.threads * parts.rows_at_once);
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[1], how, &call, sizeof call, context.stream);
}

/// Without rows these are zeros.
int run_fold_parts(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
  constexpr int kColumns = 32, kThreads = 1024;  // device/row/fold.cuh
  const State& state = kernel.load<State>();
  const NestedRowCall call = call_of(state, args, workspace);
  if (call.width == 0) return 0;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>((call.width + kColumns - 1) / kColumns);
  how.grid.y = static_cast<unsigned>(std::popcount(state.kernel->op->folded));
  how.block.x = kThreads;
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[2], how, &call, sizeof call, context.stream);
}

Kernel prepare(const Query& q, const Config& config) {
  const RowKernel& k = q.user<RowKernel>();
  const RowTraits traits = traits_of(k, q.problem);
  State state{
      &k,          config_of(k, config), traits.n, {}, 0, 0, traits.nested, q.device.arch >= 90,
      traits.shape};
  std::copy_n(traits.options, kMaxRowOptions, state.options);
  state.shared_bytes = static_cast<std::int32_t>(kept_bytes(k, q.problem, state.config));
  if (k.op->folded == 0) return make_kernel({run}, state);
  const std::int64_t rows = q.problem.dims[k.op->rows], width = columns_of(*k.op, q.problem);
  state.stats_bytes = (rows * kMaxRowStats + 255) / 256 * 256;
  const std::int64_t sums =
      most_cuda_parts(rows, accesses(k, q.problem)) * std::popcount(k.op->folded) * width;
  return make_kernel(
      {run, run_fold, run_fold_parts}, state,
      static_cast<std::size_t>(state.stats_bytes) + static_cast<std::size_t>(sums) * sizeof(float));
}

std::string literal(const RowShape& shape) {
  std::string second;
  for (const std::int8_t i : shape.second) second += text(static_cast<int>(i), ", ");
  return text("{.head_width = ", shape.head_width, ", .heads = {", shape.heads[0], ", ",
              shape.heads[1], "}, .split = ", shape.split, ", .span = ", shape.span,
              ", .headed = ", shape.headed, ", .gathered = ", shape.gathered,
              ", .index = ", shape.index, ", .index_bytes = ", shape.index_bytes,
              ", .page = ", shape.page, ", .second = {", second, "}}");
}

std::string literal(const RowTraits& traits) {
  const auto word = [](bool value) { return value ? "true" : "false"; };
  const bool shaped = traits.shape.head_width > 0 || traits.shape.gathered != 0;
  std::string types, options;
  for (const FloatType type : traits.types)
    types += text("dlblas::FloatType(", static_cast<int>(type), "), ");
  for (const std::int32_t option : traits.options) options += text(option, ", ");
  return text(
      "dlblas::RowTraits{.types = {", types, "}, .n = ", traits.n, ", .full = ", word(traits.full),
      ", .nested = ", word(traits.nested), ", .strided = ", word(traits.strided),
      ", .aligned = ", word(traits.aligned), ", .kept = ", traits.kept, shaped ? ", .shape = " : "",
      shaped ? literal(traits.shape) : "", ", .group = ", traits.group,
      traits.folded ? text(", .folded = ", traits.folded) : "", ", .options = {", options, "}}");
}

std::vector<KernelSource> sources(const Query& q, const Config& config) {
  const RowKernel& k = q.user<RowKernel>();
  const RowConfig c = config_of(k, config);
  const bool registers = k.kind == Kind::kRegisters || k.kind == Kind::kCluster;
  const std::string how =
      k.table ? k.table->literal(config, "dlblas::RowConfig")
              : text("dlblas::RowConfig{.threads = ", c.threads, ", .vectors = ", c.vectors,
                     ", .keep = false, .early = false, .variant = ", c.variant, "}");
  const RowProgramEntry& program = *k.op->program;
  std::vector<KernelSource> all = {
      {program.header,
       text(registers ? "dlblas::row_registers<" : "dlblas::row_passes<", program.type, ", ",
            literal(traits_with(k, q.problem, c)), ", ", how, ">"),
       static_cast<std::int32_t>(kept_bytes(k, q.problem, c))}};
  if (k.op->folded == 0) return all;
  const std::string traits = literal(traits_of(k, q.problem));
  const CudaParts parts = cuda_parts(1, accesses(k, q.problem));
  all.push_back({program.header,
                 text("dlblas::row_fold<", program.type, ", ", traits,
                      ", dlblas::RowConfig{.threads = ", parts.threads,
                      ", .vectors = 1, .rows = ", parts.rows_at_once,
                      ", .keep = false, .early = false, .variant = ", c.variant, "}>"),
                 0});
  all.push_back({program.header, text("dlblas::row_fold_parts<", traits, ">"), 0});
  return all;
}

Implementation implementation(const RowOperator& op, Kind kind) {
  Implementation impl;
  impl.name = kNames[static_cast<int>(kind)];
  impl.backend = DeviceType::kCuda;
  impl.min_arch = std::max(op.op.min_arch, kind == Kind::kCluster ? 90 : 80);
  impl.source_hash = op.program->hash;
  impl.flags = {.deterministic = true, .capturable = true};
  impl.knobs = make_table(op.op, kind);
  impl.user = new RowKernel{&op, kind, static_cast<const Table*>(impl.knobs)};
  impl.supports = supports;
  impl.same_bits = same_bits;
  impl.estimate = estimate;
  impl.prepare = prepare;
  impl.sources = sources;
  if (impl.knobs) impl.constrain = constrain, impl.heuristic = heuristic;
  return impl;
}

}  // namespace

std::int32_t row_vectors_for(std::int64_t accesses, std::int64_t threads) {
  for (const std::int32_t vectors : kVectors)
    if (vectors * threads >= accesses) return vectors;
  return 0;
}

std::vector<Implementation> row_cuda_implementations(const RowOperator& op) {
  std::vector<Implementation> all = {implementation(op, Kind::kRegisters)};
  if (op.op.reduces) {
    if (!op.op.selects) all.push_back(implementation(op, Kind::kCluster));
    if (!op.op.heads) all.push_back(implementation(op, Kind::kShared));
    all.push_back(implementation(op, Kind::kRows));
  }
  all.push_back(implementation(op, Kind::kStrided));
  return all;
}

}  // namespace dlblas::kernels
