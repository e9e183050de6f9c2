// Product programs on CPUs, where the elements of the result are independent: in blocks or, for few
// rows, streaming the weights once. In: a Problem, later the Args of a call. Out: a Kernel of one
// step. K alone decides where sums begin and end, so no configuration changes a bit.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/run.hpp,
// cpu/gemm/product_simd.hpp.
#include <algorithm>

#include "core/rates.hpp"
#include "cpu/gemm/run.hpp"
#include "kernels/product.hpp"

namespace dlblas::kernels {
namespace {

using R = CpuGemmRowConfig;

/// The `op` that per_level was given.
const ProductOp& op_of(const Query& q) { return kernels::op_of<ProductOp>(q); }
double threads_of(const Problem& p) { return std::max<int>(1, p.threads); }

BlockedProduct product_of(const Query& q) {
  const ProductOp& op = op_of(q);
  const Problem& p = q.problem;
  return {p.dims[op.rows], op.width(p.dims), p.dims[op.depth], op.parts, &p.tensors[op.x]};
}
double weight_bytes(const Query& q) {
  const BlockedProduct p = product_of(q);
  return p.parts * static_cast<double>(p.n) * static_cast<double>(p.k) * size_of(p.a->dtype);
}

template <typename Blocks>
struct State {
  Blocks blocks;
  ProductCpuTraits traits;

  State(const Query& q, const Blocks& how)
      : blocks(how), traits(product_cpu_traits(op_of(q), q.problem)) {}
};

GemmMatrix matrix_of(const TensorView& t) {
  const TensorView m = flat_rows(t);
  return {m.data, m.strides[0], m.strides[1], m.dtype};
}
/// A weight [N, K] is the b [K, N] of a product with its dimensions exchanged. Partial sums are
/// never stored in the result, which may be an operand.
GemmJob job_of(const ProductOp& op, const Args& args) {
  GemmJob job{};
  job.a = matrix_of(args.tensors[op.x]);
  for (int part = 0; part < op.parts; ++part) {
    const GemmMatrix w = matrix_of(args.tensors[op.weights[part]]);
    job.b[part] = {w.data, w.col, w.row, w.type};
  }
  job.m = args.letters[op.rows], job.n = op.width(args.letters), job.k = args.letters[op.depth];
  return job;
}

Support same_bits(const Query& q) {
  return bits_beside_units(q, q.problem.tensors[op_of(q).x].dtype);
}

// ---- blocks ----

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State<GemmBlocked>>();
  const ProductCpuParams p = product_cpu_params(s.traits, args);
  run_blocked(s.blocks, job_of(*s.traits.op, args), &p, context, workspace);
  return 0;
}
Kernel prepare(const Query& q, const Config& config) {
  const BlockedProduct p = product_of(q);
  const GemmBlocked s = prepare_blocked(q, p, config, kLongSums, false);
  return make_kernel({step}, State(q, s), workspace_bytes(s, p.m, p.n, p.k));
}
Implementation blocked() {
  Implementation impl;
  impl.flags.deterministic = true;
  impl.supports = [](const Query& q) { return supports_blocked(q, product_of(q), op_of(q).x); };
  impl.same_bits = same_bits;
  impl.constrain = [](const Query& q, Space& space) { constrain_blocked(q, product_of(q), space); };
  impl.heuristic = [](const Query& q) { return default_blocked(q, product_of(q)); };
  impl.estimate = [](const Query& q, const Config& config) {
    return estimate_blocked_ms(q, product_of(q), config);
  };
  impl.prepare = prepare;
  return impl;
}

// ---- few rows ----

const ConfigTable<R>& row_table() {
  static const auto* t = new ConfigTable<R>{
      field<&R::block_n>("block_n", {256, 512, 1024}),
      field<&R::prefetch>("prefetch", {0, 256, 512, kNextRows}, {"0", "256", "512", "rows"}),
  };
  return *t;
}

/// Weights whose rows are contiguous use dot products; those contiguous along N stream as rows.
bool takes_dots(const Query& q) {
  return q.problem.tensors[op_of(q).weights[0]].layout != Layout::kTransposed;
}
/// Do rows share a few columns at a time, whatever block_n?
bool shares(const Query& q) { return shares_columns(takes_dots(q), product_of(q).m); }

Support supports_row(const Query& q) {
  const ProductOp& op = op_of(q);
  const Problem& p = q.problem;
  const int most = takes_dots(q) ? kMaxDotRows : kMaxRowGroup;
  if (p.dims[op.rows] > most)
    return Support::no("{} has more than {} rows (bucket {}): weights would be read again",
                       tensor(op.x), most, p.dims[op.rows]);
  for (int part = 0; part < op.parts; ++part) {
    const int i = op.weights[part];
    const Layout l = p.tensors[i].layout;
    if (l != Layout::kTransposed && l != Layout::kContiguous && l != Layout::kRowStrided)
      return Support::no("{} is contiguous in neither dimension: it is read in place", tensor(i));
    if (takes_dots(q) != (l != Layout::kTransposed))
      return Support::no("{} and {} are contiguous in different dimensions", tensor(i),
                         tensor(op.weights[0]));
  }
  return Support::yes();
}
Support same_bits_row(const Query& q) {
  if (const Support alone = same_bits(q); !alone) return alone;
  if (!takes_dots(q)) return Support::yes();
  return Support::no("adds up dot products in another order than the form that takes more rows");
}
void constrain_row(const Query& q, Space& space) {
  space.require(row_table(), "block_n_distinct", {"block_n"},
                [n = product_of(q).n, shared = shares(q)](const R& c) {
                  return c.block_n == 256 || (!shared && c.block_n / 2 < n);
                });
  const bool dots = takes_dots(q), f32 = product_of(q).a->dtype == DType::kF32;
  space.require(row_table(), "next_rows_are_streams", {"prefetch"},
                [dots](const R& c) { return c.prefetch != kNextRows || !dots; });
  space.require(row_table(), "f32_streams_take_none", {"prefetch"},
                [dots, f32](const R& c) { return c.prefetch == 0 || dots || !f32; });
}
Config heuristic_row(const Query& q) {
  const BlockedProduct p = product_of(q);
  R c = few_rows_config(p.a->dtype, takes_dots(q));
  c.block_n = p.m <= 4 ? 1024 : 512;
  while (c.block_n > 256 && (shares(q) || c.block_n / 2 >= p.n)) c.block_n /= 2;
  return row_table().to_config(c);
}
double estimate_row(const Query& q, const Config&) {
  const BlockedProduct p = product_of(q);
  const double threads = threads_of(q.problem);
  const Rates rates = rates_of(q);
  const bool f16 = p.a->dtype == DType::kF16 && rates.f16_bytes_per_s > 0;
  const double stream = rates.memory_bytes_per_s;
  const double memory =
      weight_bytes(q) /
      (std::min(threads, 4.0) * (f16 ? std::min(stream, rates.f16_bytes_per_s) : stream));
  const double multiply = 2 * p.parts * static_cast<double>(p.m) * static_cast<double>(p.n) *
                          static_cast<double>(p.k) / (rates.f32_flops * threads);
  return 1e3 * std::max(memory, multiply) + 0.005;
}
int step_row(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State<GemmFewRows>>();
  const ProductCpuParams p = product_cpu_params(s.traits, args);
  run_few_rows(s.blocks, job_of(*s.traits.op, args), &p, context, workspace);
  return 0;
}
Kernel prepare_row(const Query& q, const Config& config) {
  const BlockedProduct p = product_of(q);
  GemmFewRows s{code_of<ProductLevel>(q).code, row_table().from_config(config), kLongSums,
                static_cast<int>(threads_of(q.problem))};
  s.config.dots = takes_dots(q);
  return make_kernel({step_row}, State(q, s), workspace_bytes(s, p.m, p.k));
}
Implementation few_rows() {
  Implementation impl;
  impl.flags.deterministic = true;
  impl.supports = supports_row;
  impl.same_bits = same_bits_row;
  impl.constrain = constrain_row;
  impl.heuristic = heuristic_row;
  impl.estimate = estimate_row;
  impl.prepare = prepare_row;
  return impl;
}

// ---- few rows on a unit ----

Support supports_unit(const Query& q) {
  const ProductOp& op = op_of(q);
  for (int part = 0; part < op.parts; ++part) {
    const Layout l = q.problem.tensors[op.weights[part]].layout;
    if (l != Layout::kContiguous && l != Layout::kRowStrided)
      return Support::no("{} is not contiguous along K: it is read in place",
                         tensor(op.weights[part]));
  }
  return supports_unit_rows(q, product_of(q), op.x, op.weights[0]);
}
Implementation unit_rows() {
  Implementation impl;
  impl.flags.deterministic = true;
  impl.supports = supports_unit;
  impl.constrain = [](const Query& q, Space& space) {
    constrain_unit_rows(q, product_of(q), space);
  };
  impl.heuristic = [](const Query& q) { return default_unit_rows(q, product_of(q)); };
  impl.estimate = [](const Query& q, const Config&) {
    return estimate_unit_rows_ms(q, product_of(q));
  };
  impl.prepare = [](const Query& q, const Config& config) {
    const BlockedProduct p = product_of(q);
    const GemmFewRows s = prepare_unit_rows(q, config);
    return make_kernel({step_row}, State(q, s), workspace_bytes(s, p.m, p.k));
  };
  return impl;
}

/// A level's code in the form that blocked products use; kept for the process.
const ProductLevel* level_of(const ProductCpuLevel& level) {
  constexpr int kLanes[] = {4, 8, 16};  // by Isa
  const Multiplier multiplier = level.unit == CpuUnit::kAmx          ? Multiplier::kTiles
                                : level.unit == CpuUnit::kAvx512Bf16 ? Multiplier::kPairs
                                                                     : Multiplier::kFloats;
  return new ProductLevel{level.of_unit ? level.of_unit : &level.code->gemm,
                          kLanes[static_cast<int>(level.isa)], 1, multiplier};
}

}  // namespace

void append_product_cpu(std::vector<Implementation>& to, const ProductOp& op) {
  std::vector<CpuLevel> blocks, rows, units;
  for (const ProductCpuLevel& level : op.levels) {
    if (!level.of_unit && !level.code->gemm.blocks) continue;  // the pass over sums alone
    const ProductLevel* const code = level_of(level);
    const bool unit = level.unit != CpuUnit::kNone;
    const CpuLevel whole = {level.isa, level.hash, code, &blocked_table(*code), level.unit, unit};
    blocks.push_back(whole);
    if (!unit) rows.push_back({level.isa, level.hash, code, &row_table()});
    if (unit)
      units.push_back({level.isa, level.hash, code, &unit_rows_table(code->multiplier), level.unit,
                       level.unit == CpuUnit::kAmx});
  }
  const auto append = [&](const Implementation& base, const char* prefix,
                          const std::vector<CpuLevel>& levels) {
    if (levels.empty()) return;
    for (const Implementation& impl : per_level(base, prefix, levels, &op)) to.push_back(impl);
  };
  append(unit_rows(), "cpu_row_", units);
  append(few_rows(), "cpu_row_", rows);
  append(blocked(), "cpu_", blocks);
}

}  // namespace dlblas::kernels
