// Grouped products on CPUs: one matrix product per group, with matmul's code. Groups of few rows
// stream their matrix; others pack it. Gathered rows are copied to the workspace, a few at a time:
// matmul's code reads rows at one stride. In: a Problem, later the Args of a call. Out: a Kernel of
// one step. Numerics: a matrix contiguous along K streams as dot products, whose sums have another
// order than packed ones; under kDeterministic it is packed for any number of rows.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/run.hpp.
#include <algorithm>
#include <cstring>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/run.hpp"
#include "ops/gemm/grouped/grouped.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {
namespace {

struct GroupedState {
  const GroupedOp* op;
  GemmBlocked blocked;
  GemmFewRows few;
  bool any_batch;        // a row has the same bits in a group of any size
  bool tiles;            // few rows are those of AMX, whose matrix lies along K
  std::size_t gathered;  // where gathered rows begin in the workspace
};

/// Rows that are gathered together: each time, the group's matrix is packed again.
std::int64_t rows_at_once(std::int64_t k, DType type) {
  constexpr std::int64_t kBytes = std::int64_t{4} << 20, kMinRows = 256;
  return std::max(kMinRows, kBytes / std::max<std::int64_t>(1, k * size_of(type)));
}

GemmMatrix matrix(const GroupedMatrix& m, DType type, std::int64_t group, std::int64_t row,
                  std::int64_t col) {
  char* const data =
      static_cast<char*>(m.data) + (group * m.group + row * m.row + col * m.col) * size_of(type);
  return {data, m.row, m.col, type};
}

/// Copies the rows of a that elements [first, first + count) of the list name, zeros for those that
/// name none. Returns the copy, as a matrix.
GemmMatrix gather(const GroupedOp& op, const Args& args, const GroupedProduct& p,
                  std::int64_t first, std::int64_t count, const Context& context, void* to) {
  const TensorView& rows = args.tensors[op.rows];
  const DType type = args.tensors[kGroupedA].dtype;
  const std::int64_t size = size_of(type), bytes = p.k * size;
  const GemmMatrix copied = {to, p.k, 1, type};
  if (bytes == 0) return copied;
  constexpr std::int64_t kGrain = 1 << 16;  // bytes
  context.run(0, count, 1 + kGrain / bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      char* const copy = static_cast<char*>(to) + i * bytes;
      const double row = load_element(rows, (first + i) * rows.strides[0]);
      if (!(row >= 0 && row < static_cast<double>(args.letters[op.sources]))) {
        std::memset(copy, 0, static_cast<std::size_t>(bytes));
        continue;
      }
      const auto* const from =
          static_cast<const char*>(matrix(p.a, type, 0, static_cast<std::int64_t>(row), 0).data);
      if (p.a.col == 1) {
        std::memcpy(copy, from, static_cast<std::size_t>(bytes));
        continue;
      }
      for (std::int64_t k = 0; k < p.k; ++k)
        std::memcpy(copy + k * size, from + k * p.a.col * size, static_cast<std::size_t>(size));
    }
  });
  return copied;
}

/// One product, by the code for few rows or by blocks. `rows` decides: those of the whole group, so
/// that a part of it adds up in the same order.
void multiply(const GroupedState& s, const MatmulParams& one, std::int64_t rows,
              const Context& context, void* workspace) {
  const bool by_rows = one.b.col == 1, dots = !by_rows && one.b.row == 1;
  const bool streams =
      s.tiles ? dots && one.n >= kMinColumnsOfTiles : by_rows || (dots && !s.any_batch);
  if (!streams || rows > (s.tiles ? kMaxRowsOfTiles : kMaxRowGroup) || one.n == 0)
    return run_blocked(s.blocked, product_of(one), &one, context, workspace);
  GemmFewRows few = s.few;
  if (!s.tiles) {
    few.config = few_rows_config(one.a.type, dots);
    few.config.block_n = s.few.config.block_n;
  }
  run_few_rows(few, product_of(one), &one, context, workspace);
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<GroupedState>();
  const GroupedOp& op = *s.op;
  const GroupedProduct p = grouped_product(op, args);
  const TensorView& sizes = args.tensors[kGroupedSizes];
  const DType in = args.tensors[kGroupedA].dtype, out = args.tensors[op.out].dtype;
  const bool by_depth = op.kind == GroupKind::kDepth;
  const std::int64_t most = by_depth ? p.k : p.m;
  const auto limit = [&](std::int64_t at) {
    const double v = load_element(sizes, at * sizes.strides[0]);
    return std::clamp(static_cast<std::int64_t>(v), std::int64_t{0}, most);
  };
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const bool masked = op.kind == GroupKind::kMasked;
    const std::int64_t begin = masked ? 0 : limit(g);
    const std::int64_t count = std::max<std::int64_t>(0, limit(masked ? g : g + 1) - begin);
    if (count == 0 && !by_depth) continue;
    const std::int64_t row = by_depth ? 0 : begin, depth = by_depth ? begin : 0;
    MatmulParams one{};
    one.a = matrix(p.a, in, g, row, depth), one.b = matrix(p.b, in, g, depth, 0);
    one.out = matrix(p.out, out, g, row, 0);
    one.m = by_depth ? p.m : count, one.n = p.n, one.k = by_depth ? count : p.k;
    if (!op.gathers()) {
      multiply(s, one, one.m, context, workspace);
      continue;
    }
    const std::int64_t most_rows = rows_at_once(p.k, in);
    char* const copy = static_cast<char*>(workspace) + s.gathered;
    for (std::int64_t first = 0; first < count; first += most_rows) {
      one.m = std::min(most_rows, count - first);
      one.a = gather(op, args, p, begin + first, one.m, context, copy);
      one.out = matrix(p.out, out, g, row + first, 0);
      multiply(s, one, count, context, workspace);
    }
  }
  return 0;
}

/// A level: blocks, and the code for few rows.
struct Level {
  ProductLevel blocks;
  const GemmCode* few;
};
int threads_of(const Problem& p) { return std::max<int>(1, p.threads); }

Support supports(const Query& q) {
  const DType a = q.problem.tensors[kGroupedA].dtype;
  const bool floats = kernels::code_of<Level>(q).blocks.multiplier == kernels::Multiplier::kFloats;
  if (!floats && a != DType::kBF16)
    return Support::no("the unit multiplies bf16 alone; {} has another dtype", tensor(kGroupedA));
  return Support::yes();
}

Kernel prepare(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<GroupedOp>(q);
  const Level& level = kernels::code_of<Level>(q);
  const bool tiles = level.blocks.multiplier == kernels::Multiplier::kTiles;
  CpuGemmConfig c{0, 192, 1024, 512, GemmOrder::kColumns, GemmSplit::kColumns, true};
  const double rows =
      op.kind == GroupKind::kDepth ? static_cast<double>(p.dims[op.m]) : grouped_average(op, p);
  c.tile = kernels::best_tile(level.blocks, rows, p.dims[op.n]);
  const std::int64_t m = p.dims[op.m], n = p.dims[op.n], k = p.dims[op.k];
  const TensorTraits& out = p.tensors[op.out];
  const bool holds_sums = out.dtype == DType::kF32 &&
                          (out.layout == Layout::kContiguous || out.layout == Layout::kRowStrided ||
                           out.layout == Layout::kRowsOuter);
  GroupedState s{};
  s.op = &op;
  s.blocked = gemm_blocked(*level.blocks.code, c, tiles ? kTileSums : kLongSums, threads_of(p), k,
                           holds_sums);
  s.few = {level.few, {1, 512, 0, false}, kLongSums, threads_of(p)};
  if (tiles) s.few = {level.few, {2, kMinColumnsOfTiles, 0, true}, kTileSums, threads_of(p)};
  s.any_batch = p.flags & kDeterministic;
  s.tiles = tiles;
  const std::int64_t few = std::min<std::int64_t>(m, tiles ? kMaxRowsOfTiles : kMaxRowGroup);
  std::size_t bytes = std::max(workspace_bytes(s.blocked, m, n, k), workspace_bytes(s.few, few, k));
  if (op.gathers()) {
    constexpr std::size_t kLine = 64;
    const DType in = p.tensors[kGroupedA].dtype;
    s.gathered = (bytes + kLine - 1) / kLine * kLine;
    bytes =
        s.gathered + static_cast<std::size_t>(std::min(m, rows_at_once(k, in)) * k * size_of(in));
  }
  return make_kernel({step}, s, bytes);
}

double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<GroupedOp>(q);
  const ProductLevel& level = kernels::code_of<Level>(q).blocks;
  const auto threads = static_cast<double>(threads_of(p));
  const double flops = kernels::rates_of(q).f32_flops * kernels::speed_of(level.multiplier);
  const double multiply = 2 * grouped_multiply_adds(op, p) / flops;
  const double memory = unit_rates(q.device, q.device.isa_hardware).memory_bytes_per_s;
  const double pack =
      2 * grouped_bytes(op, p) / (kPacking * memory) / level.code->blocks->depths_per_float;
  return 1e3 * (multiply + pack) / threads +
         0.005 * std::max(1.0, static_cast<double>(p.dims[op.groups]));
}

}  // namespace

std::vector<Implementation> grouped_cpu(const GroupedOp& op) {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports;
  base.same_bits = [](const Query& q) {
    return kernels::bits_beside_units(q, q.problem.tensors[kGroupedA].dtype);
  };
  base.estimate = estimate;
  base.prepare = prepare;
  const char* const hash = source_hash<"ops/gemm/grouped/grouped_cpu.cpp">();
  const auto level = [](const ProductLevel& blocks, const ProductLevel& few) {
    return new Level{blocks, few.code};  // lives as long as the process
  };
  const MatmulLevels& of = kMatmulLevels;
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(DLBLAS_X86)
        {Isa::kAvx512, hash, level(kMatmulAmx, kMatmulAmx), nullptr, kernels::CpuUnit::kAmx, true},
            {Isa::kAvx512,
             hash,
             level(kMatmulBf16, of.avx512),
             nullptr,
             kernels::CpuUnit::kAvx512Bf16,
             true},
            {Isa::kAvx512, hash, level(of.avx512, of.avx512), nullptr},
            {Isa::kAvx2, hash, level(of.avx2, of.avx2), nullptr},
#endif
            {Isa::kBaseline, hash, level(of.baseline, of.baseline), nullptr},
      },
      &op);
}

}  // namespace dlblas::gemm
