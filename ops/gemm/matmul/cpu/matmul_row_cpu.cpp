// The few-row matmul on CPUs (decoding: one token, or a handful): no packing, b streams through
// once, threads divide the columns.
// In: a Problem with M ≤ 8, or 32 where b is transposed. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// cpu/gemm/run.hpp, cpu/gemm/few_rows.hpp.
#include <algorithm>
#include <bit>

#include "core/source_hash.hpp"
#include "cpu/gemm/run.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {
namespace {

const ConfigTable<CpuGemmRowConfig>& table() {
  using C = CpuGemmRowConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::block_n>("block_n", {256, 512, 1024, 2048}),
      field<&C::prefetch>("prefetch", {0, 256, 512, 1024, kNextRows},
                          {"0", "256", "512", "1024", "rows"}),
  };
  return *t;
}

bool b_is_row_major(const Problem& p) {
  const Layout layout = p.tensors[kB].layout;
  return layout == Layout::kContiguous || layout == Layout::kRowStrided;
}

/// A single column is contiguous along K, too; streamed, it would fill only one lane of a vector.
bool takes_dots(const Problem& p) {
  const bool column = p.dims[kN] == 1 && p.tensors[kB].layout == Layout::kContiguous;
  return !b_is_row_major(p) || (column && !(p.flags & kDeterministic));
}

/// Whether rows share a few columns at a time, whatever block_n is.
bool shares(const Problem& p) { return shares_columns(takes_dots(p), p.dims[kM]); }

Support supports(const Query& q) {
  const Problem& p = q.problem;
  const int most = takes_dots(p) ? kMaxDotRows : kMaxRowGroup;
  if (p.dims[kM] > most) {
    return Support::no("{} has more than {} rows (bucket {}): b would be read again", tensor(kA),
                       most, p.dims[kM]);
  }
  if (!b_is_row_major(p) && p.tensors[kB].layout != Layout::kTransposed) {
    return Support::no("{} is contiguous in neither dimension: it is read in place", tensor(kB));
  }
  return Support::yes();
}

/// The blocked form takes more rows than this one; it sums in the same order as the streams here.
Support same_bits(const Query& q) {
  if (const Support alone = kernels::bits_beside_units(q, q.problem.tensors[kA].dtype); !alone)
    return alone;
  if (b_is_row_major(q.problem)) return Support::yes();
  return Support::no("adds up a transposed b in another order than the form that takes more rows");
}

void constrain(const Query& q, Space& space) {
  space.require(table(), "block_n_distinct", {"block_n"},
                [n = q.problem.dims[kN], shared = shares(q.problem)](const CpuGemmRowConfig& c) {
                  return c.block_n == 256 || (!shared && c.block_n / 2 < n);
                });
  const bool dots = takes_dots(q.problem), f32 = q.problem.tensors[kB].dtype == DType::kF32;
  space.require(table(), "next_rows_are_streams", {"prefetch"},
                [dots](const CpuGemmRowConfig& c) { return c.prefetch != kNextRows || !dots; });
  space.require(table(), "f32_streams_take_none", {"prefetch"},
                [dots, f32](const CpuGemmRowConfig& c) { return c.prefetch == 0 || dots || !f32; });
}

Config heuristic(const Query& q) {
  const Problem& p = q.problem;
  const std::int64_t rows = std::max<std::int64_t>(1, p.dims[kM]);
  CpuGemmRowConfig c = few_rows_config(p.tensors[kB].dtype, takes_dots(p));
  // 1×4096×4096 on one core of AMD Zen 4, November 2026: 23 GB/s of b with 2048 columns, 21 with
  // 1024.
  c.block_n = static_cast<std::int32_t>(std::clamp<std::int64_t>(4096 / rows, 512, 2048));
  c.block_n = 1 << (31 - std::countl_zero(static_cast<std::uint32_t>(c.block_n)));
  while (c.block_n > 256 && (shares(p) || c.block_n / 2 >= p.dims[kN])) c.block_n /= 2;
  return table().to_config(c);
}

double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const ProductLevel& level = kernels::code_of<ProductLevel>(q);
  const auto threads = static_cast<double>(std::max<int>(1, p.threads));
  const Rates rates = kernels::rates_of(q);
  const double stream = rates.memory_bytes_per_s, f16 = level.f16_part * rates.f16_bytes_per_s;
  const double rate = p.tensors[kB].dtype == DType::kF16 ? std::min(stream, f16) : stream;
  const double memory = bytes_of_b(p) / (std::min(threads, 4.0) * rate);
  return 1e3 * std::max(memory, 2 * multiply_adds(p) / (rates.f32_flops * threads)) + 0.005;
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const MatmulParams p = matmul_params(args);
  run_few_rows(kernel.load<GemmFewRows>(), product_of(p), &p, context, workspace);
  return 0;
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  GemmFewRows s{kernels::code_of<ProductLevel>(q).code, table().from_config(config), sums_of(p),
                std::max<int>(1, p.threads)};
  s.config.dots = takes_dots(p);
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kM], p.dims[kK]));
}

// ---- on a unit ----

#if defined(DLBLAS_X86)
kernels::BlockedProduct unit_product(const Problem& p) {
  return {p.dims[kM], p.dims[kN], p.dims[kK], 1, &p.tensors[kA]};
}
Support supports_unit(const Query& q) {
  if (q.problem.tensors[kB].layout != Layout::kTransposed)
    return Support::no("{} is not contiguous along K: it is read in place", tensor(kB));
  return kernels::supports_unit_rows(q, unit_product(q.problem), kA, kB);
}
Kernel prepare_unit(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const GemmFewRows s = kernels::prepare_unit_rows(q, config);
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kM], p.dims[kK]));
}
void append_units(std::vector<Implementation>& to) {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports_unit;
  base.constrain = [](const Query& q, Space& space) {
    kernels::constrain_unit_rows(q, unit_product(q.problem), space);
  };
  base.heuristic = [](const Query& q) {
    return kernels::default_unit_rows(q, unit_product(q.problem));
  };
  base.estimate = [](const Query& q, const Config&) {
    return kernels::estimate_unit_rows_ms(q, unit_product(q.problem));
  };
  base.prepare = prepare_unit;
  using kernels::Multiplier, kernels::unit_rows_table;
  for (const Implementation& impl : kernels::per_level(
           base, "cpu_row_",
           {{Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_amx.cpp">(), &kMatmulAmx,
             &unit_rows_table(Multiplier::kTiles), kernels::CpuUnit::kAmx, true},
            {Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_avx512bf16.cpp">(), &kMatmulBf16,
             &unit_rows_table(Multiplier::kPairs), kernels::CpuUnit::kAvx512Bf16, false}}))
    to.push_back(impl);
}
#endif

}  // namespace

void append_rows(std::vector<Implementation>& to) {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports;
  base.same_bits = same_bits;
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  const auto knobs = [](const ProductLevel&) -> const KnobTable& { return table(); };
#if defined(DLBLAS_X86)
  append_units(to);
#endif
  for (const Implementation& impl : gemm_levels(base, "cpu_row_", knobs)) to.push_back(impl);
}

}  // namespace dlblas::gemm
