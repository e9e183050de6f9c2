// The blocked matmul on CPUs: which configurations exist, which one is the default, and the order
// in which sums are added. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/run.hpp.
#include <algorithm>

#include "core/source_hash.hpp"
#include "cpu/gemm/run.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {

namespace {

GemmMatrix matrix_of(const TensorView& tensor) {
  const TensorView t = flat(tensor);
  GemmMatrix m{t.data, t.strides[0], t.strides[1], t.dtype};
  if (t.shape[0] == 1) m.row = 1;
  if (t.shape[1] == 1) m.col = 1;
  return m;
}

}  // namespace

MatmulParams matmul_params(const Args& args) {
  MatmulParams p{};
  p.a = matrix_of(args.tensors[kA]);
  p.b = matrix_of(args.tensors[kB]);
  p.out = matrix_of(args.tensors[kOut]);
  if (args.has(kBias)) {
    const TensorView& bias = args.tensors[kBias];
    p.bias = {bias.data, 0, bias.shape[0] == 1 ? 1 : bias.strides[0], bias.dtype};
  }
  p.m = args.letters[kM], p.n = args.letters[kN], p.k = args.letters[kK];
  p.activation = static_cast<Activation>(args.scalars[kActivation].i);
  return p;
}

GemmJob product_of(const MatmulParams& p) {
  GemmJob job{};
  job.a = p.a, job.b[0] = p.b;
  job.m = p.m, job.n = p.n, job.k = p.k;
  if (p.out.type == DType::kF32 && p.out.col == 1)
    job.partial = static_cast<float*>(p.out.data), job.partial_row = p.out.row;
  return job;
}

// Follows the order of OpenBLAS 0.3.31: dot products of 16 or 64 lanes for a vector and, up to a
// million products, for up to eight columns; shorter chains, up to a million products, for a few
// rows (seen with AVX2 only); otherwise chains like kLongSums.
GemmSumOrder sums_of(const Problem& p) {
  const std::int64_t n = p.dims[kN], k = p.dims[kK];
  const bool any_batch = p.flags & kDeterministic;
  const bool one_row = p.dims[kM] <= 1 && !any_batch, vector = one_row || n <= 1;
  const bool small = n <= 8 && !any_batch && multiply_adds(p) <= 1e6;
  if (small || (vector && k < 256) || (one_row && n <= 1)) return kShortSums;
  if (vector && k < 2048) return kMiddleSums;
  const bool few_rows = p.dims[kM] <= 8 && !any_batch && multiply_adds(p) <= 1e6;
  return few_rows ? kFewRowsSums : kLongSums;
}

constinit const MatmulLevels kMatmulLevels;

namespace {
std::vector<kernels::CpuLevel> levels(const KnobTable& (*knobs)(const ProductLevel&)) {
  const MatmulLevels& of = kMatmulLevels;
  return {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_avx512.cpp">(), &of.avx512,
     &knobs(of.avx512)},
        {Isa::kAvx2, source_hash<"ops/gemm/matmul/cpu/matmul_avx2.cpp">(), &of.avx2,
         &knobs(of.avx2)},
#endif
        {Isa::kBaseline, source_hash<"ops/gemm/matmul/cpu/matmul_baseline.cpp">(), &of.baseline,
         &knobs(of.baseline)},
  };
}
}  // namespace

std::vector<Implementation> gemm_levels(const Implementation& base, const char* prefix,
                                        const KnobTable& (*knobs)(const ProductLevel&)) {
  return kernels::per_level(base, prefix, levels(knobs));
}

namespace {

constexpr bool divides_blocks(const GemmSumOrder& s) {
  return 256 % s.run == 0 && s.span % 512 == 0;
}
static_assert(divides_blocks(kLongSums) && divides_blocks(kFewRowsSums) &&
                  divides_blocks(kMiddleSums) && divides_blocks(kShortSums),
              "a block of depth, 256 or 512, is whole runs of one span");

const KnobTable& knobs_of(const ProductLevel& level) { return kernels::blocked_table(level); }

kernels::BlockedProduct product_of(const Problem& p) {
  return {p.dims[kM], p.dims[kN], p.dims[kK], 1, &p.tensors[kA]};
}
Support supports(const Query& q) { return kernels::supports_blocked(q, product_of(q.problem), kA); }
void constrain(const Query& q, Space& space) {
  kernels::constrain_blocked(q, product_of(q.problem), space);
}
Config heuristic(const Query& q) { return kernels::default_blocked(q, product_of(q.problem)); }
double estimate(const Query& q, const Config& config) {
  return kernels::estimate_blocked_ms(q, product_of(q.problem), config);
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<GemmBlocked>();
  const MatmulParams p = matmul_params(args);
  run_blocked(s, product_of(p), &p, context, workspace);
  return 0;
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const TensorTraits& out = p.tensors[kOut];
  const bool holds_sums = out.dtype == DType::kF32 &&
                          (out.layout == Layout::kContiguous || out.layout == Layout::kRowStrided);
  const GemmBlocked s = kernels::prepare_blocked(q, product_of(p), config, sums_of(p), holds_sums);
  return make_kernel({step}, s, workspace_bytes(s, p.dims[kM], p.dims[kN], p.dims[kK]));
}

}  // namespace

void append_blocked(std::vector<Implementation>& to) {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports;
  base.same_bits = [](const Query& q) {
    return kernels::bits_beside_units(q, q.problem.tensors[kA].dtype);
  };
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  std::vector<kernels::CpuLevel> all = levels(knobs_of);
#if defined(DLBLAS_X86)
  const std::vector<kernels::CpuLevel> units = {
      {Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_amx.cpp">(), &kMatmulAmx,
       &knobs_of(kMatmulAmx), kernels::CpuUnit::kAmx, true},
      {Isa::kAvx512, source_hash<"ops/gemm/matmul/cpu/matmul_avx512bf16.cpp">(), &kMatmulBf16,
       &knobs_of(kMatmulBf16), kernels::CpuUnit::kAvx512Bf16, true}};
  all.insert(all.begin(), units.begin(), units.end());
#endif
  for (const Implementation& impl : kernels::per_level(base, "cpu_", all)) to.push_back(impl);
}

}  // namespace dlblas::gemm
