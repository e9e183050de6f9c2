// The CUDA forms of grouped products: traits and parameters, the tile chosen for an average group,
// and the launch. The grid covers any division into groups: it depends only on sizes that the host
// knows. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_mma.cuh.
#include "ops/gemm/grouped/grouped_cuda.hpp"

#include <algorithm>
#include <cmath>

#include "core/integers.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_cuda.hpp"

namespace dlblas::gemm {
namespace {

bool is_aligned(const TensorTraits& t, int bytes) { return (1 << t.align_log2) >= bytes; }

const TraitsTable<GroupTraits>& groups_table() {
  static const auto* table = new TraitsTable<GroupTraits>{
      "dlblas::GroupTraits",
      {member<&GroupTraits::kind>("kind"), member<&GroupTraits::index>("index"),
       member<&GroupTraits::aligned>("aligned"), member<&GroupTraits::rows>("rows")}};
  return *table;
}
const TraitsTable<GemmOutTraits>& out_table() {
  static const auto* table = new TraitsTable<GemmOutTraits>{
      "dlblas::GemmOutTraits",
      {member<&GemmOutTraits::type>("type"), member<&GemmOutTraits::vector>("vector"),
       member<&GemmOutTraits::aligned>("aligned")}};
  return *table;
}

/// Each group's matrix is contiguous along N: [E, K, N] viewed as [E, N, K].
bool is_turned(const TensorTraits& t) { return t.layout == Layout::kMatricesTransposed; }
bool rows_are_plain(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
         t.layout == Layout::kRowsOuter;
}

/// The estimate for one tile size: each multiprocessor runs its share of the tiles, each bound by
/// its multiply-adds or its copies; memory bandwidth bounds the whole.
double estimate_ms(const Query& q, const GroupedOp& op, int block_m, int block_n, double rate,
                   int side_by_side) {
  const Problem& p = q.problem;
  const double tiles = std::max(1.0, grouped_tiles(op, p, block_m, block_n));
  const double depth =
      op.kind == GroupKind::kDepth ? grouped_average(op, p) : static_cast<double>(p.dims[op.k]);
  const double at_once = 1.0 * q.device.units * side_by_side;
  const double turns =
      tiles <= at_once ? std::ceil(tiles / q.device.units) : tiles / q.device.units;
  const double products = (depth + 128) * block_m * block_n / rate;
  const double copies = (depth + 128) * size_of(p.tensors[kGroupedA].dtype) * (block_m + block_n) /
                        unit_rates(q.device).alone_bytes_per_s;
  constexpr double kReached = 0.8;  // of memory's rate; not measured yet
  const double memory = grouped_bytes(op, p) / (kReached * memory_bytes_per_s(q.device));
  return 1e3 * (std::max(turns * std::max(products, copies), memory) + 5e-6);
}

struct Mma : GroupedForm<Mma> {
  static constexpr const char* kInclude = "ops/gemm/grouped/grouped_mma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::grouped_mma";
  static constexpr const auto& kTiles = kGroupedMmaTiles;
  static constexpr int kCount = kGroupedMmaCount;

  static std::int32_t span(const Query& q) { return tensor_core_span(op_of(q), q.problem); }
  static Support supports(const Query& q) { return grouped_on_tensor_cores(op_of(q), q.problem); }
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(op_of(q), q.problem)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }
  static bool fits(const Query& q, int tile) {
    const GemmMmaConfig& c = kTiles[tile];
    const bool spills = span(q) > 0 && c.warp_m() * c.warp_n() > 3072;  // pairs of 64 × 64 sums
    return !spills && GroupedForm<Mma>::fits(q, tile);
  }
  static double milliseconds(const Query& q, const Config& config) {
    const GemmMmaConfig& c = kTiles[config.tile];
    const double reuse = 1.0 * c.warp_m() * c.warp_n() / (c.warp_m() + c.warp_n());
    const double peak = (q.device.arch >= 90 ? 0.6 : 0.8) * unit_rates(q.device).half_flops / 2;
    return estimate_ms(q, op_of(q), c.block_m, c.block_n,
                       peak * std::min(1.0, 0.45 + 0.55 * reuse / 32), 2);
  }
};

struct Fma : GroupedForm<Fma> {
  static constexpr const char* kInclude = "ops/gemm/grouped/grouped_fma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::grouped_fma";
  static constexpr const auto& kTiles = kGroupedFmaTiles;
  static constexpr int kCount = kGroupedFmaCount;

  static std::int32_t span(const Query& q) {
    constexpr std::int64_t kLong = 128;
    return q.problem.dims[op_of(q).k] > kLong ? kLong : 0;
  }
  static Support supports(const Query& q) { return grouped_fits_grid(op_of(q), q.problem); }
  static Support same_bits(const Query& q) {
    if (!tensor_cores_take_any_batch(op_of(q), q.problem)) return Support::yes();
    return Support::no("adds up in another order than cuda_mma, which takes such rows");
  }
  static double milliseconds(const Query& q, const Config& config) {
    const GemmFmaConfig& c = kTiles[config.tile];
    const double reuse = 1.0 * c.thread_m * c.thread_n / (c.thread_m + c.thread_n);
    const double rate = unit_rates(q.device).f32_flops / 2 * std::min(1.0, 0.37 + 0.1 * reuse);
    return estimate_ms(q, op_of(q), c.block_m, c.block_n, rate, 2);
  }
};

}  // namespace

bool tensor_cores_take_any_batch(const GroupedOp& op, const Problem& p) {
  const bool by_depth = op.kind == GroupKind::kDepth;
  const bool turned = !by_depth && is_turned(p.tensors[kGroupedB]);
  return p.dims[by_depth ? op.m : op.k] % 8 == 0 && p.dims[turned ? op.k : op.n] % 8 == 0 &&
         grouped_on_tensor_cores(op, p);
}

std::int32_t tensor_core_span(const GroupedOp& op, const Problem& p) {
  constexpr std::int64_t kLongestChain = 16384;
  const bool any = op.kind == GroupKind::kDepth && (p.flags & kDeterministic) != 0;
  return any || p.dims[op.k] > kLongestChain ? 2048 : 0;
}

GroupedGpuParams grouped_gpu_params(const GroupedOp& op, const Args& args) {
  const GroupedProduct p = grouped_product(op, args);
  const TensorView& sizes = args.tensors[kGroupedSizes];
  GroupedGpuParams to{};
  to.gemm.a = p.a.data, to.gemm.a_row = p.a.row, to.gemm.a_col = p.a.col;
  to.gemm.b[0] = p.b.data, to.gemm.b_row = p.b.row, to.gemm.b_col = p.b.col;
  to.gemm.m = p.m, to.gemm.n = p.n, to.gemm.k = p.k;
  // The stride of a dimension of size 1 leads nowhere, but a 0-byte copy needs an aligned address.
  if ((op.gathers() ? args.letters[op.sources] : p.m) == 1) to.gemm.a_row = 0;
  if (p.k == 1) to.gemm.a_col = to.gemm.b_row = 0;
  if (p.n == 1) to.gemm.b_col = 0;
  to.epilogue.out = {p.out.data, p.out.row, p.out.col};
  to.groups.sizes = sizes.data;
  to.groups.sizes_stride = sizes.shape[0] == 1 ? 0 : sizes.strides[0];
  to.groups.most = op.kind == GroupKind::kDepth ? p.k : p.m;
  to.groups.groups = static_cast<std::int32_t>(p.groups);
  to.groups.a_group = p.a.group, to.groups.b_group = p.b.group, to.groups.out_group = p.out.group;
  if (!op.gathers()) return to;
  const TensorView& rows = args.tensors[op.rows];
  to.groups.rows = rows.data;
  to.groups.rows_stride = rows.shape[0] == 1 ? 0 : rows.strides[0];
  to.groups.sources = args.letters[op.sources];
  return to;
}

GroupedTraits grouped_traits(const GroupedOp& op, const Problem& p, std::int32_t span) {
  const TensorTraits &a = p.tensors[kGroupedA], &b = p.tensors[kGroupedB];
  const TensorTraits &sizes = p.tensors[kGroupedSizes], &out = p.tensors[op.out];
  const bool by_depth = op.kind == GroupKind::kDepth;
  GroupedTraits s{};
  s.gemm.type = a.dtype;
  s.gemm.a_by_depth = !by_depth;
  s.gemm.b_by_depth = !by_depth && !is_turned(b);
  s.gemm.a_whole = p.dims[by_depth ? op.m : op.k] % 8 == 0;
  s.gemm.b_whole = p.dims[s.gemm.b_by_depth ? op.k : op.n] % 8 == 0;
  s.gemm.aligned = is_aligned(a, size_of(a.dtype)) && is_aligned(b, size_of(b.dtype));
  s.gemm.span = span;
  s.groups = {op.kind, sizes.dtype, is_aligned(sizes, 4)};
  if (op.gathers()) {
    const TensorTraits& rows = p.tensors[op.rows];
    s.groups.rows = rows.dtype, s.groups.aligned = s.groups.aligned && is_aligned(rows, 4);
  }
  s.out.type = out.dtype;
  s.out.aligned = is_aligned(out, size_of(out.dtype));
  s.out.vector = out.align_log2 >= kAlignCap &&
                 (out.layout == Layout::kContiguous ? p.dims[op.n] * size_of(out.dtype) % 16 == 0
                                                    : rows_are_plain(out));
  return s;
}

std::string grouped_literal(const GroupedTraits& s) {
  return text("dlblas::gemm::GroupedTraits{", kernels::gemm_traits_table().literal(s.gemm), ", ",
              groups_literal(s.groups), ", ", out_literal(s.out), "}");
}
std::string groups_literal(const GroupTraits& traits) { return groups_table().literal(traits); }
std::string out_literal(const GemmOutTraits& traits) { return out_table().literal(traits); }

std::int64_t grouped_blocks(const GroupedOp& op, std::int64_t m, std::int64_t n,
                            std::int64_t groups, std::int64_t block_m, std::int64_t block_n) {
  if (groups == 0) return 1;  // which finds nothing to do: a grid has blocks
  const std::int64_t columns = ceil_div(n, block_n);
  if (op.kind == GroupKind::kRows) return most_row_tiles(m, groups, block_m) * columns;
  return groups * ceil_div(m, block_m) * columns;
}

Support grouped_fits_grid(const GroupedOp& op, const Problem& p) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
  for (const int letter : {op.m, op.n, op.k, op.groups})
    if (p.dims[letter] > kMax / 2)
      return Support::no("a dimension is {}: at most {}", p.dims[letter], kMax / 2);
  const double blocks =
      static_cast<double>(grouped_blocks(op, p.dims[op.m], p.dims[op.n], 1, 16, 32)) *
      (op.kind == GroupKind::kRows ? 1.0 : static_cast<double>(p.dims[op.groups]));
  const double ends =
      op.kind == GroupKind::kRows
          ? static_cast<double>(p.dims[op.groups]) * static_cast<double>(ceil_div(p.dims[op.n], 32))
          : 0;
  if (blocks + ends > static_cast<double>(kMax))
    return Support::no("the results have more tiles than a grid has blocks");
  return Support::yes();
}

Support grouped_on_tensor_cores(const GroupedOp& op, const Problem& p) {
  if (p.tensors[kGroupedA].dtype == DType::kF32)
    return Support::no("f32 stays IEEE here: tensor cores would round it to TF32");
  for (const int i : {kGroupedA, kGroupedB}) {
    const TensorTraits& t = p.tensors[i];
    const bool turned = i == kGroupedB && op.kind != GroupKind::kDepth && is_turned(t);
    if (!turned && !rows_are_plain(t))
      return Support::no("{} has rows that are not contiguous", tensor(i));
    if (t.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                         std::int64_t{1} << t.align_log2);
  }
  if (!is_aligned(p.tensors[op.out], size_of(p.tensors[op.out].dtype)))
    return Support::no("{} is not aligned to its elements", tensor(op.out));
  return grouped_fits_grid(op, p);
}

double grouped_tiles(const GroupedOp& op, const Problem& p, int block_m, int block_n) {
  const auto groups = static_cast<double>(p.dims[op.groups]);
  const double columns = std::ceil(static_cast<double>(p.dims[op.n]) / block_n);
  if (op.kind != GroupKind::kRows)
    return groups * std::ceil(static_cast<double>(p.dims[op.m]) / block_m) * columns;
  const auto rows = static_cast<double>(p.dims[op.m]);
  // On average, the last tile of a group is half empty.
  const double with_rows = std::min(groups, rows), average = rows / std::max(1.0, with_rows);
  const double tiles = average <= block_m ? 1 : average / block_m + 0.5;
  return with_rows * tiles * columns;
}

std::vector<Implementation> grouped_cuda(const GroupedOp& op) {
  const char* const hash = source_hash<"ops/gemm/grouped/grouped_cuda.cpp">();
  std::vector<Implementation> all;
  all.push_back(grouped_wgmma(op));
  all.push_back(kernels::make_cuda<Mma>("cuda_mma", hash, &op));
  all.push_back(kernels::make_cuda<Fma>("cuda_fma", hash, &op));
  return all;
}

}  // namespace dlblas::gemm
