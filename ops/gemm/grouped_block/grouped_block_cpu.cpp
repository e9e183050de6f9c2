// Block-scaled grouped products of f8 on CPUs. With AMX each group is a separate scaled product;
// otherwise 64 rows of a group are widened to f32, then each row of the weight, and their products
// are summed over 128 of K at a time. Threads divide columns. In: a Problem, later the Args of a
// call. Out: a Kernel of one step. Numerics: a fixed order of sums.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: grouped_block_ref.hpp,
// ops/gemm/scaled/scaled_tiles.hpp.
#include <algorithm>
#include <array>

#include "core/element.hpp"
#include "core/integers.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/gemm/grouped_block/grouped_block.hpp"
#include "ops/gemm/scaled/scaled_tiles.hpp"

namespace dlblas::gemm {
namespace {

constexpr std::int64_t kRows = 64, kBlock = 128;

struct BlockState {
  const GroupedOp* op;
  std::int64_t threads;
};

using Values = std::array<float, 256>;
const Values& values_of(DType type) {
  const auto make = [](DType t) {
    auto* values = new Values;  // lives as long as the process
    for (int code = 0; code < 256; ++code)
      (*values)[static_cast<std::size_t>(code)] = f8_to_f32(t, static_cast<std::uint8_t>(code));
    return values;
  };
  static const Values* const e4m3 = make(DType::kF8E4M3);
  static const Values* const e5m2 = make(DType::kF8E5M2);
  return type == DType::kF8E4M3 ? *e4m3 : *e5m2;
}

void widen(const void* data, std::int64_t at, std::int64_t stride, std::int64_t count,
           const Values& values, float* to) {
  const auto* const from = static_cast<const std::uint8_t*>(data) + at;
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[from[i * stride]];
}

/// Eight independent partial sums, combined in a fixed order.
float dot(const float* a, const float* b, std::int64_t count) {
  float sums[8] = {};
  std::int64_t k = 0;
  for (; k + 8 <= count; k += 8)
    for (int i = 0; i < 8; ++i) sums[i] += a[k + i] * b[k + i];
  for (; k < count; ++k) sums[k % 8] += a[k] * b[k];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// One running call.
struct Run {
  const Args& args;
  const GroupedOp& op;
  GroupedProduct p;
  std::int64_t threads;
  float* workspace;
  const Values& values = values_of(args.tensors[kGroupedA].dtype);

  float scale(int tensor, std::int64_t group, std::int64_t row, std::int64_t column) const {
    const TensorView& t = args.tensors[tensor];
    const std::int64_t of_group = t.rank > 2 ? t.strides[0] : 0;
    return static_cast<float>(load_element(
        t, group * of_group + row * t.strides[t.rank - 2] + column * t.strides[t.rank - 1]));
  }
  void rows(std::int64_t group, std::int64_t first, std::int64_t count, const Context& context) {
    for (std::int64_t r = 0; r < count; ++r)
      widen(p.a.data, group * p.a.group + (first + r) * p.a.row, p.a.col, p.k, values,
            workspace + r * p.k);
    context.run(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot)
        for (std::int64_t n = slot; n < p.n; n += threads) column(group, first, count, n, slot);
    });
  }
  void column(std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t n,
              std::int64_t slot) const {
    float* const weight = workspace + (kRows + slot) * p.k;
    widen(p.b.data, group * p.b.group + n * p.b.col, p.b.row, p.k, values, weight);
    const TensorView& out = args.tensors[op.out];
    for (std::int64_t r = 0; r < count; ++r) {
      const float* const a = workspace + r * p.k;
      float total = 0;
      for (std::int64_t k = 0; k < p.k; k += kBlock) {
        const float factor = scale(kGroupedAScale, group, first + r, k / kBlock) *
                             scale(kGroupedWeightScale, group, n / kBlock, k / kBlock);
        total += factor * dot(a + k, weight + k, std::min(kBlock, p.k - k));
      }
      store_element(out, group * p.out.group + (first + r) * p.out.row + n * p.out.col, total);
    }
  }
};

/// Calls f(group, first row, one past the last row) for every group that has rows.
template <typename F>
void each_group(const GroupedOp& op, const GroupedProduct& p, const Args& args, const F& f) {
  const TensorView& sizes = args.tensors[kGroupedSizes];
  const auto limit = [&](std::int64_t at) {
    const auto v = static_cast<std::int64_t>(load_element(sizes, at * sizes.strides[0]));
    return std::clamp(v, std::int64_t{0}, p.m);
  };
  const bool masked = op.kind == GroupKind::kMasked;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const std::int64_t begin = masked ? 0 : limit(g), end = limit(masked ? g : g + 1);
    if (begin < end) f(g, begin, end);
  }
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<BlockState>();
  Run run{args, *s.op, grouped_product(*s.op, args), s.threads, static_cast<float*>(workspace)};
  each_group(*s.op, run.p, args, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kRows)
      run.rows(g, first, std::min(kRows, end - first), context);
  });
  return 0;
}

Kernel prepare(const Query& q, const Config&) {
  const auto& op = kernels::op_of<GroupedOp>(q);
  const std::int64_t threads = std::max<std::int64_t>(1, q.problem.threads);
  return make_kernel(
      {step}, BlockState{&op, threads},
      static_cast<std::size_t>((kRows + threads) * q.problem.dims[op.k]) * sizeof(float));
}

double estimate(const Query& q, const Config&) {
  const auto& op = kernels::op_of<GroupedOp>(q);
  const double units = std::max<double>(1, q.problem.threads);
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units, 4 * grouped_bytes(op, q.problem),
                                          4 * grouped_multiply_adds(op, q.problem), DType::kF32);
}

#if defined(DLBLAS_X86)
struct TilesState {
  const GroupedOp* op;
  scaled::Tiles tiles;
};

/// A group's matrix from `row` on; `turned`: its last dimension is the product's first.
scaled::ScaledMatrix matrix_of(const TensorView& t, std::int64_t group, std::int64_t row,
                               bool turned) {
  const std::int64_t *strides = t.strides + t.rank - 2,
                     at = (t.rank > 2 ? group * t.strides[0] : 0) + row * strides[0];
  return {static_cast<char*>(t.data) + at * size_of(t.dtype), strides[turned ? 1 : 0],
          strides[turned ? 0 : 1], t.dtype};
}

int tiles_step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<TilesState>();
  const GroupedProduct p = grouped_product(*s.op, args);
  each_group(*s.op, p, args, [&](std::int64_t g, std::int64_t begin, std::int64_t end) {
    scaled::ScaledJob job{};
    job.a = matrix_of(args.tensors[kGroupedA], g, begin, false);
    job.b = matrix_of(args.tensors[kGroupedB], g, 0, true);
    job.a_scale = matrix_of(args.tensors[kGroupedAScale], g, begin, false);
    job.b_scale = matrix_of(args.tensors[kGroupedWeightScale], g, 0, true);
    job.out = matrix_of(args.tensors[s.op->out], g, begin, false);
    job.m = end - begin, job.n = p.n, job.k = p.k, job.blocks = true;
    scaled::run_tiles(s.tiles, job, context, workspace);
  });
  return 0;
}

scaled::TilesProduct tiles_product(const Query& q) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<GroupedOp>(q);
  const TensorTraits& weight = p.tensors[kGroupedB];
  return {std::min(p.dims[op.m], static_cast<std::int64_t>(grouped_average(op, p))),
          p.dims[op.n],
          p.dims[op.k],
          weight.dtype,
          scaled::Scales::kBlock,
          weight.layout != Layout::kMatricesTransposed};
}

Kernel prepare_tiles(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<GroupedOp>(q);
  const scaled::TilesProduct product = tiles_product(q);
  const int threads = std::max<int>(1, p.threads);
  const scaled::Tiles tiles =
      scaled::prepare_tiles(product, scaled::tiles_config(product, threads), threads);
  return make_kernel({tiles_step}, TilesState{&op, tiles},
                     scaled::workspace_bytes(tiles, p.dims[op.m], product.n, product.k));
}

double estimate_tiles(const Query& q, const Config&) {
  const auto& op = kernels::op_of<GroupedOp>(q);
  return scaled::tiles_ms(q, tiles_product(q)) *
         std::max(1.0, static_cast<double>(q.problem.dims[op.groups]));
}
#endif

}  // namespace

Bound grouped_block_bound(const GroupedOp& op, const Problem& p) {
  const FloatTraits out = float_traits(p.tensors[op.out].dtype);
  const auto parts = static_cast<double>(ceil_div(p.dims[op.k], kBlock));
  return {.magnitude = 1 + kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + (parts + 4) * float_traits(DType::kF32).tiny};
}

std::vector<Implementation> grouped_block_cpu(const GroupedOp& op) {
  Implementation base;
  base.flags.deterministic = true;
  base.estimate = estimate;
  base.prepare = prepare;
  const char* const hash = source_hash<"ops/gemm/grouped_block/grouped_block_cpu.cpp">();
  std::vector<Implementation> all =
      kernels::per_level(base, "cpu_", {{Isa::kBaseline, hash, nullptr}}, &op);
#if defined(DLBLAS_X86)
  base.estimate = estimate_tiles;
  base.prepare = prepare_tiles;
  const char* const of_tiles = source_hash<"ops/gemm/scaled/scaled_amx.cpp">();
  const auto tiles = kernels::per_level(
      base, "cpu_", {{Isa::kAvx512, of_tiles, nullptr, nullptr, kernels::CpuUnit::kAmx}}, &op);
  all.insert(all.begin(), tiles.begin(), tiles.end());
#endif
  return all;
}

}  // namespace dlblas::gemm
