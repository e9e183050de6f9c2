// gated_linear on CPUs: one pass over x for both products, in blocks or, for few rows, with the
// weights streaming through once. In: a Problem, later the Args of a call. Out: a Kernel of one
// step. K alone divides the sums, so every configuration gives the same bits.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/run.hpp,
// gated_linear_simd.hpp.
#include "ops/mlp/gated_linear/cpu/gated_linear_config.hpp"

#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/run.hpp"
#include "kernels/blocked_product.hpp"
#include "ops/mlp/gated_linear/gated_linear.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

using kernels::ProductLevel;
using R = CpuGemmRowConfig;

const KnobTable& knobs_of(const ProductLevel& level) { return kernels::blocked_table(level); }
const ConfigTable<R>& row_table() {
  static const auto* t = new ConfigTable<R>{
      field<&R::block_n>("block_n", {256, 512, 1024}),
      field<&R::prefetch>("prefetch", {0, 256, 512, kNextRows}, {"0", "256", "512", "rows"}),
  };
  return *t;
}

double threads_of(const Problem& p) { return std::max<int>(1, p.threads); }

kernels::BlockedProduct product_of(const Problem& p) {
  return {p.dims[kT], p.dims[kF], p.dims[kK], 2, &p.tensors[kX]};
}
Support supports(const Query& q) { return kernels::supports_blocked(q, product_of(q.problem), kX); }
void constrain(const Query& q, Space& space) {
  kernels::constrain_blocked(q, product_of(q.problem), space);
}
Config heuristic(const Query& q) { return kernels::default_blocked(q, product_of(q.problem)); }
double estimate(const Query& q, const Config& config) {
  return kernels::estimate_blocked_ms(q, product_of(q.problem), config);
}

GemmMatrix matrix_of(const TensorView& t) {
  const TensorView m = flat(t);
  return {m.data, m.strides[0], m.strides[1], m.dtype};
}
/// A weight [F, K], with its dimensions exchanged, is the b [K, N] of a product.
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
  const GemmBlocked s = kernels::prepare_blocked(q, product_of(p), config, kLongSums, false);
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kT], p.dims[kF], p.dims[kK]));
}

// ---- few rows ----

/// Weights with contiguous rows are read as dot products; those contiguous along F stream as rows.
bool takes_dots(const Problem& p) { return p.tensors[kGate].layout != Layout::kTransposed; }

/// Whether rows share a few columns at a time, whatever block_n is.
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
    return Support::no("{} and {} are contiguous in different dimensions", tensor(kUp),
                       tensor(kGate));
  return Support::yes();
}
Support same_bits(const Query& q) {
  return kernels::bits_beside_units(q, q.problem.tensors[kX].dtype);
}
Support same_bits_row(const Query& q) {
  if (const Support alone = same_bits(q); !alone) return alone;
  if (!takes_dots(q.problem)) return Support::yes();
  return Support::no("adds up dot products in another order than the form that takes more rows");
}
void constrain_row(const Query& q, Space& space) {
  space.require(row_table(), "block_n_distinct", {"block_n"},
                [n = q.problem.dims[kF], shared = shares(q.problem)](const R& c) {
                  return c.block_n == 256 || (!shared && c.block_n / 2 < n);
                });
  const bool dots = takes_dots(q.problem), f32 = q.problem.tensors[kGate].dtype == DType::kF32;
  space.require(row_table(), "next_rows_are_streams", {"prefetch"},
                [dots](const R& c) { return c.prefetch != kNextRows || !dots; });
  space.require(row_table(), "f32_streams_take_none", {"prefetch"},
                [dots, f32](const R& c) { return c.prefetch == 0 || dots || !f32; });
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
  GemmFewRows s{kernels::code_of<ProductLevel>(q).code, row_table().from_config(config), kLongSums,
                static_cast<int>(threads_of(p))};
  s.config.dots = takes_dots(p);
  return make_kernel({step_row}, s, workspace_bytes(s, p.dims[kT], p.dims[kK]));
}

#if defined(DLBLAS_X86)
constexpr ProductLevel kAmx = {&avx512::kGatedLinearAmx, 16, 1, kernels::Multiplier::kTiles};

constexpr ProductLevel kBf16 = {&avx512::kGatedLinearBf16, 16, 1, kernels::Multiplier::kPairs};

Support supports_unit(const Query& q) {
  const Problem& p = q.problem;
  for (const int i : {kGate, kUp})
    if (p.tensors[i].layout != Layout::kContiguous && p.tensors[i].layout != Layout::kRowStrided)
      return Support::no("{} is not contiguous along K: it is read in place", tensor(i));
  return kernels::supports_unit_rows(q, product_of(p), kX, kGate);
}
Kernel prepare_unit(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const GemmFewRows s = kernels::prepare_unit_rows(q, config);
  return make_kernel({step_row}, s, workspace_bytes(s, p.dims[kT], p.dims[kK]));
}
void append_units(std::vector<Implementation>& to) {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports_unit;
  base.constrain = [](const Query& q, Space& space) {
    kernels::constrain_unit_rows(q, product_of(q.problem), space);
  };
  base.heuristic = [](const Query& q) {
    return kernels::default_unit_rows(q, product_of(q.problem));
  };
  base.estimate = [](const Query& q, const Config&) {
    return kernels::estimate_unit_rows_ms(q, product_of(q.problem));
  };
  base.prepare = prepare_unit;
  using kernels::Multiplier, kernels::unit_rows_table;
  for (const Implementation& impl : kernels::per_level(
           base, "cpu_row_",
           {{Isa::kAvx512, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_amx.cpp">(), &kAmx,
             &unit_rows_table(Multiplier::kTiles), kernels::CpuUnit::kAmx, true},
            {Isa::kAvx512, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_avx512bf16.cpp">(),
             &kBf16, &unit_rows_table(Multiplier::kPairs), kernels::CpuUnit::kAvx512Bf16, false}}))
    to.push_back(impl);
}
#endif

/// `knobs`: those of the few-row form; null: the blocked form, which bf16 units run as well.
std::vector<Implementation> levels(const Implementation& base, const char* prefix,
                                   const KnobTable* knobs) {
  const auto of = [&](const ProductLevel& level) { return knobs ? knobs : &knobs_of(level); };
  std::vector<kernels::CpuLevel> all;
#if defined(DLBLAS_X86)
  static const ProductLevel avx512 = {&avx512::kGatedLinearCode.gemm, 16};
  static const ProductLevel avx2 = {&avx2::kGatedLinearCode.gemm, 8};
  if (!knobs)
    all = {{Isa::kAvx512, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_amx.cpp">(), &kAmx,
            of(kAmx), kernels::CpuUnit::kAmx, true},
           {Isa::kAvx512, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_avx512bf16.cpp">(),
            &kBf16, of(kBf16), kernels::CpuUnit::kAvx512Bf16, true}};
  all.push_back({Isa::kAvx512, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_avx512.cpp">(),
                 &avx512, of(avx512)});
  all.push_back({Isa::kAvx2, source_hash<"ops/mlp/gated_linear/cpu/gated_linear_avx2.cpp">(), &avx2,
                 of(avx2)});
#endif
  static const ProductLevel baseline = {&baseline::kGatedLinearCode.gemm, 4};
  all.push_back({Isa::kBaseline,
                 source_hash<"ops/mlp/gated_linear/cpu/gated_linear_baseline.cpp">(), &baseline,
                 of(baseline)});
  return kernels::per_level(base, prefix, all);
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
#if defined(DLBLAS_X86)
  append_units(to);
#endif
  for (const Implementation& impl : levels(row, "cpu_row_", &row_table())) to.push_back(impl);
  Implementation blocked;
  blocked.flags.deterministic = true;
  blocked.supports = supports;
  blocked.same_bits = same_bits;
  blocked.constrain = constrain;
  blocked.heuristic = heuristic;
  blocked.estimate = estimate;
  blocked.prepare = prepare;
  for (const Implementation& impl : levels(blocked, "cpu_", nullptr)) to.push_back(impl);
}

}  // namespace dlblas::mlp
