// gated_linear on CPUs: one pass over x for both products, in blocks or, for few rows, with the
// weights streaming through once. In: a Problem, later the Args of a call. Out: a Kernel of one
// step. Sums begin and end where K says, so no configuration changes a bit.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/run.hpp,
// gated_linear_simd.hpp.
#include "ops/mlp/gated_linear/cpu/gated_linear_config.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/run.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/mlp/gated_linear/gated_linear.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

using C = CpuGemmConfig;
using R = CpuGemmRowConfig;
constexpr std::int64_t kFloatBytes = sizeof(float);

/// A level: its code, and its lanes.
struct Level {
  const GatedLinearCode* code;
  int lanes;
};

const KnobTable& make_table(const Level& level) {
  auto* labels = new std::vector<std::string>;  // lives as long as the process, as the table does
  std::vector<std::int64_t> tiles;
  for (int i = 0; i < level.code->gemm.num_tiles; ++i) {
    const GemmTile tile = level.code->gemm.tiles[i];
    labels->push_back(text(tile.m, "x", tile.n));
    tiles.push_back(i);
  }
  return *new ConfigTable<C>{
      field<&C::tile>("tile", tiles, {labels->begin(), labels->end()}),
      field<&C::block_m>("block_m", {96, 192, 384}),
      field<&C::block_n>("block_n", {512, 1024, 4096}),
      field<&C::block_k>("block_k", {256, 512}),
      field<&C::unroll_k>("unroll_k", {1, 4}),
      field<&C::prefetch>("prefetch", {0}),
      field<&C::order>("order", {0, 1}, {"columns", "rows"}),
      field<&C::split>("split", {0, 1}, {"columns", "rows"}),
      field<&C::pack_a>("pack_a", {0, 1}),
  };
}
const ConfigTable<R>& row_table() {
  static const auto* t = new ConfigTable<R>{
      field<&R::unroll_k>("unroll_k", {2, 4, 8}),
      field<&R::block_n>("block_n", {256, 512, 1024}),
      field<&R::prefetch>("prefetch", {0, 256, 512, kNextRows}, {"0", "256", "512", "rows"}),
  };
  return *t;
}

const ConfigTable<C>& table_of(const Query& q) {
  return static_cast<const ConfigTable<C>&>(*q.self.knobs);
}
const GemmCode& code_of(const Query& q) { return kernels::code_of<Level>(q).code->gemm; }
double threads_of(const Problem& p) { return std::max<int>(1, p.threads); }

/// No smaller value of the knob covers the dimension.
bool block_is_distinct(const KnobTable& knobs, std::string_view name, std::int64_t value,
                       std::int64_t size) {
  for (const std::int64_t v : knobs.values(name))
    if (v < value && v >= size) return false;
  return true;
}

void constrain(const Query& q, Space& space) {
  const auto& t = table_of(q);
  const Problem& p = q.problem;
  const GemmCode& code = code_of(q);
  space.require(t, "blocks_distinct", {"block_m", "block_n", "block_k"},
                [&t, m = p.dims[kT], n = p.dims[kF], k = p.dims[kK]](const C& c) {
                  return block_is_distinct(t, "block_m", c.block_m, m) &&
                         block_is_distinct(t, "block_n", c.block_n, n) &&
                         block_is_distinct(t, "block_k", c.block_k, k);
                });
  space.require(t, "a_block_fits_l2", {"block_m", "block_k"}, [l2 = q.device.l2_bytes](const C& c) {
    return c.block_m * c.block_k * kFloatBytes <= l2 || (c.block_m == 96 && c.block_k == 256);
  });
  space.require(t, "rows_enough_to_split", {"tile", "split"},
                [&code, m = p.dims[kT], threads = p.threads](const C& c) {
                  return c.split == GemmSplit::kColumns ||
                         (threads > 1 && m >= std::int64_t{threads} * code.tiles[c.tile].m);
                });
  space.require(t, "in_place_a_is_f32", {"pack_a"},
                [f32 = p.tensors[kX].dtype == DType::kF32](const C& c) { return f32 || c.pack_a; });
}

/// As matmul's: the tile with the fewest wasted rows, then the fewest loads per multiply-add.
Config heuristic(const Query& q) {
  const Problem& p = q.problem;
  const GemmCode& code = code_of(q);
  C c{0, 192, 1024, 512, 4, 0, GemmOrder::kColumns, GemmSplit::kColumns, true};
  double best = 0;
  const double lanes = kernels::code_of<Level>(q).lanes;
  for (int i = 0; i < code.num_tiles; ++i) {
    const GemmTile tile = code.tiles[i];
    double used =
        static_cast<double>(p.dims[kT]) / static_cast<double>(round_up(p.dims[kT], tile.m));
    if (p.dims[kF] <= 16) used /= tile.n;
    const double score = used / (1 + 0.3 * (1.0 / tile.m + lanes / tile.n));
    if (score > best) best = score, c.tile = i;
  }
  constexpr int kStreams = 8;  // rows of x that hardware prefetching follows side by side
  const Layout x = p.tensors[kX].layout;
  c.pack_a = p.tensors[kX].dtype != DType::kF32 || code.tiles[c.tile].m > kStreams ||
             (x != Layout::kContiguous && x != Layout::kRowStrided);
  if (p.dims[kT] <= 64) c.block_n = 4096, c.block_k = 256;
  const KnobTable& knobs = *q.self.knobs;
  const auto fit = [&](std::string_view name, std::int64_t wish, std::int64_t size) {
    std::int64_t fitting = knobs.values(name).front();
    for (const std::int64_t v : knobs.values(name))
      if (v <= wish && block_is_distinct(knobs, name, v, size)) fitting = v;
    return static_cast<std::int32_t>(fitting);
  };
  c.block_m = fit("block_m", c.block_m, p.dims[kT]);
  c.block_n = fit("block_n", c.block_n, p.dims[kF]);
  c.block_k = fit("block_k", c.block_k, p.dims[kK]);
  if (c.block_m * c.block_k * kFloatBytes > q.device.l2_bytes) c.block_m = 96, c.block_k = 256;
  return table_of(q).to_config(c);
}

double estimate(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const GemmTile tile = code_of(q).tiles[table_of(q).from_config(config).tile];
  const auto m = static_cast<double>(round_up(p.dims[kT], tile.m));
  const auto n = static_cast<double>(2 * round_up(p.dims[kF], tile.n));
  const auto k = static_cast<double>(p.dims[kK]);
  constexpr double kPacking = 0.615;  // of memory's rate, as matmul's
  const double multiply = 2 * m * n * k / kernels::rates_of(q).f32_flops;
  const double memory = unit_rates(q.device, q.device.isa_hardware).memory_bytes_per_s;
  const double pack = kFloatBytes * (m * k + n * k) / (kPacking * memory);
  return 1e3 * (multiply + pack) / threads_of(p) + 0.005;
}

GemmMatrix matrix_of(const TensorView& t) {
  const TensorView m = flat(t);
  return {m.data, m.strides[0], m.strides[1], m.dtype};
}
/// A weight [F, K] is the b [K, N] of a product with its dimensions exchanged.
GemmJob job_of(const Args& args) {
  GemmJob job{};
  job.a = matrix_of(args.tensors[kX]);
  for (const int i : {kGate, kUp}) {
    const GemmMatrix w = matrix_of(args.tensors[i]);
    job.b[i - kGate] = {w.data, w.col, w.row, w.type};
  }
  job.m = args.letters[kT], job.n = args.letters[kF], job.k = args.letters[kK];
  return job;
}
GatedCpuParams params_of(const Args& args) {
  return {matrix_of(args.tensors[kY]), static_cast<Gate>(args.scalars[kActivation].i)};
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const GatedCpuParams p = params_of(args);
  run_blocked(kernel.load<GemmBlocked>(), job_of(args), &p, context, workspace);
  return 0;
}
Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const GemmBlocked s = gemm_blocked(code_of(q), table_of(q).from_config(config), kLongSums,
                                     static_cast<int>(threads_of(p)), p.dims[kK], false);
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kT], p.dims[kF], p.dims[kK]));
}

// ---- few rows ----

/// Weights whose rows are contiguous are dot products; contiguous along F they stream as rows.
bool takes_dots(const Problem& p) { return p.tensors[kGate].layout != Layout::kTransposed; }

/// Do rows share a few columns at a time, whatever block_n?
bool shares(const Problem& p) { return shares_columns(takes_dots(p), p.dims[kT]); }

Support supports_row(const Query& q) {
  const Problem& p = q.problem;
  const int most = takes_dots(p) ? kMaxDotRows : kMaxRowGroup;
  if (p.dims[kT] > most)
    return Support::no("{} has more than {} rows (bucket {}): weights would be read again",
                       tensor(kX), most, p.dims[kT]);
  const auto along = [&](int i) {
    const Layout l = p.tensors[i].layout;
    return l == Layout::kTransposed ? 1 : l == Layout::kContiguous || l == Layout::kRowStrided;
  };
  for (const int i : {kGate, kUp})
    if (!along(i))
      return Support::no("{} is contiguous in neither dimension: it is read in place", tensor(i));
  if (takes_dots(p) != (p.tensors[kUp].layout != Layout::kTransposed))
    return Support::no("{} lies otherwise than {}", tensor(kUp), tensor(kGate));
  return Support::yes();
}
Support same_bits_row(const Query& q) {
  if (!takes_dots(q.problem)) return Support::yes();
  return Support::no("adds up dot products in another order than the form that takes more rows");
}
void constrain_row(const Query& q, Space& space) {
  space.require(row_table(), "block_n_distinct", {"block_n"},
                [n = q.problem.dims[kF], shared = shares(q.problem)](const R& c) {
                  return c.block_n == 256 || (!shared && c.block_n / 2 < n);
                });
  space.require(
      row_table(), "next_rows_are_streams", {"prefetch"},
      [dots = takes_dots(q.problem)](const R& c) { return c.prefetch != kNextRows || !dots; });
}
Config heuristic_row(const Query& q) {
  const Problem& p = q.problem;
  R c = few_rows_config(p.tensors[kGate].dtype, takes_dots(p));
  c.block_n = p.dims[kT] <= 4 ? 1024 : 512;
  while (c.block_n > 256 && (shares(p) || c.block_n / 2 >= p.dims[kF])) c.block_n /= 2;
  return row_table().to_config(c);
}
double estimate_row(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const double threads = threads_of(p);
  const Rates rates = kernels::rates_of(q);
  const bool f16 = p.tensors[kGate].dtype == DType::kF16 && rates.f16_bytes_per_s > 0;
  const double stream = rates.memory_bytes_per_s;
  const double memory =
      bytes_of_weights(p) /
      (std::min(threads, 4.0) * (f16 ? std::min(stream, rates.f16_bytes_per_s) : stream));
  return 1e3 * std::max(memory, 2 * multiply_adds(p) / (rates.f32_flops * threads)) + 0.005;
}
int step_row(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const GatedCpuParams p = params_of(args);
  run_few_rows(kernel.load<GemmFewRows>(), job_of(args), &p, context, workspace);
  return 0;
}
Kernel prepare_row(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  GemmFewRows s{&code_of(q), row_table().from_config(config), kLongSums,
                static_cast<int>(threads_of(p))};
  s.config.dots = takes_dots(p);
  return make_kernel({step_row}, s, workspace_bytes(s, p.dims[kT], p.dims[kK]));
}

std::vector<Implementation> levels(const Implementation& base, const char* prefix,
                                   const KnobTable* knobs) {
#if defined(DLBLAS_X86)
  static const Level avx512 = {&avx512::kGatedLinearCode, 16};
  static const Level avx2 = {&avx2::kGatedLinearCode, 8};
#endif
  static const Level baseline = {&baseline::kGatedLinearCode, 4};
  const auto of = [&](const Level& level) { return knobs ? knobs : &make_table(level); };
  return kernels::per_level(base, prefix, {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_avx512.cpp">(), &avx512,
     of(avx512)},
        {Isa::kAvx2, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_avx2.cpp">(), &avx2,
         of(avx2)},
#endif
        {Isa::kBaseline, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_baseline.cpp">(),
         &baseline, of(baseline)},
  });
}

}  // namespace

void append_cpu(std::vector<Implementation>& to) {
  Implementation row;
  row.flags.deterministic = true;
  row.supports = supports_row;
  row.same_bits = same_bits_row;
  row.constrain = constrain_row;
  row.heuristic = heuristic_row;
  row.estimate = estimate_row;
  row.prepare = prepare_row;
  for (const Implementation& impl : levels(row, "cpu_row_", &row_table())) to.push_back(impl);
  Implementation blocked;
  blocked.flags.deterministic = true;
  blocked.constrain = constrain;
  blocked.heuristic = heuristic;
  blocked.estimate = estimate;
  blocked.prepare = prepare;
  for (const Implementation& impl : levels(blocked, "cpu_", nullptr)) to.push_back(impl);
}

}  // namespace dlblas::mlp
