// Batched products on CPUs with one set-up for all matrices: the threads divide the batch, and each
// runs matmul's loops on its matrices, with a workspace of its own. In: a Problem, later the Args
// of a call. Out: a Kernel of one step. Numerics: matmul's order of sums, so a matrix has the bits
// that the same loops give it alone. Flow: call > validate > [select] > [compile] > [launch].  Read
// next: cpu/gemm/run.hpp, batched_each.cpp.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/loops.hpp"
#include "cpu/gemm/run.hpp"
#include "ops/gemm/batched/batched.hpp"

namespace dlblas::gemm {
namespace {

/// A level's blocks and their knobs, which no search changes here: `cpu_each` takes what one of
/// matmul found. Its code for few rows and for small matrices.
struct Level {
  ProductLevel blocks;
  const KnobTable* knobs;
  const GemmCode* few;
  void (*small)(const GemmJob&, float* room) = nullptr;
};
const Level& level_of(const Query& q) { return kernels::code_of<Level>(q); }

enum class Form : std::uint8_t { kBlocked, kFewRows, kSmall };

struct State {
  const BatchedOp* op;
  const Level* level;
  GemmBlocked blocked;
  GemmFewRows few;
  Form form;  // of each matrix
  int slots;
  std::size_t bytes;  // of a slot's workspace
};

int threads_of(const Problem& p) { return std::max<int>(1, p.threads); }
/// Each matrix as a problem of matmul on one thread.
Problem alone(const Query& q) {
  Problem p = matrix_problem(kernels::op_of<BatchedOp>(q), q.problem);
  p.threads = 1;
  return p;
}
/// The implementation as blocks see it: with knobs.
Implementation with_knobs(const Query& q) {
  Implementation blocks = q.self;
  blocks.knobs = level_of(q).knobs;
  return blocks;
}
kernels::BlockedProduct product_of(const Query& q, const Problem& p) {
  return {p.dims[kM], p.dims[kN], p.dims[kK], 1, &p.tensors[kA], &level_of(q).blocks};
}
bool floats(const Query& q) {
  return level_of(q).blocks.multiplier == kernels::Multiplier::kFloats;
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State>();
  const MatmulParams first = matmul_params(matrix_args(*s.op, args, 0));
  const std::int64_t count = args.letters[kBatch], share = ceil_div(count, s.slots);
  if (count == 0 || first.m == 0 || first.n == 0) return 0;
  const std::int64_t apart[] = {batch_stride(args.tensors[kA]) * size_of(first.a.type),
                                batch_stride(args.tensors[kB]) * size_of(first.b.type),
                                batch_stride(args.tensors[kOut]) * size_of(first.out.type)};
  context.run(0, s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    Context one = context;
    one.num_threads = 1;
    for (std::int64_t slot = begin; slot < end; ++slot) {
      char* const own = static_cast<char*>(workspace) + slot * static_cast<std::int64_t>(s.bytes);
      MatmulParams p = first;
      for (std::int64_t i = slot * share; i < std::min(count, (slot + 1) * share); ++i) {
        p.a.data = static_cast<char*>(first.a.data) + i * apart[0];
        p.b.data = static_cast<char*>(first.b.data) + i * apart[1];
        p.out.data = static_cast<char*>(first.out.data) + i * apart[2];
        if (s.form == Form::kBlocked) {
          run_blocked(s.blocked, gemm::product_of(p), &p, one, own);
        } else if (s.form == Form::kFewRows) {
          run_few_rows(s.few, gemm::product_of(p), &p, one, own);
        } else {
          GemmJob job = gemm::product_of(p);
          job.epilogue = &s.level->few->epilogue, job.params = &p;
          s.level->small(job, reinterpret_cast<float*>(own));
        }
      }
    }
  });
  return 0;
}

/// Few rows of a matrix are read where they lie, along its rows or along K.
bool streams(const Query& q, const Problem& p) {
  const Layout b = p.tensors[kB].layout;
  if (b == Layout::kTransposed) {
    if (p.flags & kDeterministic) return false;
    return p.dims[kM] <= (floats(q) || p.dims[kK] < 512 ? 2 : kMaxDotRows);
  }
  return floats(q) && (b == Layout::kContiguous || b == Layout::kRowStrided) &&
         p.dims[kM] <= kMaxRowGroup && p.dims[kN] >= 16;
}

/// Small matrices of one chain of sums, whose b stays in L1.
bool is_small(const Query& q, const Problem& p) {
  constexpr std::int64_t kMost = 4096;  // elements of b
  return level_of(q).small && p.dims[kN] <= kSmallColumns && p.dims[kM] <= kSmallColumns &&
         p.dims[kK] <= sums_of(p).chain && p.dims[kK] * p.dims[kN] <= kMost;
}

Form form_of(const Query& q, const Problem& p) {
  if (is_small(q, p)) return Form::kSmall;
  return streams(q, p) ? Form::kFewRows : Form::kBlocked;
}

Support supports(const Query& q) {
  return kernels::supports_blocked(q, product_of(q, alone(q)), kA);
}
Kernel prepare(const Query& q, const Config&) {
  const Problem p = alone(q);
  const Implementation self = with_knobs(q);
  const Query blocks = {p, q.device, self};
  const kernels::BlockedProduct product = product_of(q, p);
  const TensorTraits& out = p.tensors[kOut];
  const bool holds_sums = out.dtype == DType::kF32 &&
                          (out.layout == Layout::kContiguous || out.layout == Layout::kRowStrided);
  const bool dots = p.tensors[kB].layout == Layout::kTransposed;
  State s{};
  s.op = &kernels::op_of<BatchedOp>(q);
  s.blocked = kernels::prepare_blocked(blocks, product, kernels::default_blocked(blocks, product),
                                       sums_of(p), holds_sums);
  s.few = {level_of(q).few, few_rows_config(p.tensors[kB].dtype, dots),
           floats(q) ? sums_of(p) : kTileSums, 1};
  s.few.config.block_n = 512;
  if (!floats(q)) s.few.config = {1, kPairColumns, p.dims[kM] > 2, true};
  s.level = &level_of(q);
  s.form = form_of(q, p);
  s.slots =
      static_cast<int>(std::clamp<std::int64_t>(q.problem.dims[kBatch], 1, threads_of(q.problem)));
  const std::int64_t m = p.dims[kM], n = p.dims[kN], k = p.dims[kK];
  const std::size_t bytes = s.form == Form::kSmall
                                ? sizeof(float) * static_cast<std::size_t>(small_floats(m, n, k))
                            : s.form == Form::kFewRows ? workspace_bytes(s.few, m, k)
                                                       : workspace_bytes(s.blocked, m, n, k);
  constexpr std::size_t kLine = 256;
  s.bytes = (bytes + kLine - 1) / kLine * kLine;
  return make_kernel({step}, s, s.bytes * static_cast<std::size_t>(s.slots));
}

/// One thread of a Zen 5, November 2026: 1024×32×32×32 in f32 takes 0.41 µs per matrix, 4096×8×8×8
/// 0.05, of which calls are 0.03; without a chain's loops 0.2.
double estimate(const Query& q, const Config&) {
  const Problem p = alone(q);
  const Implementation self = with_knobs(q);
  const Query blocks = {p, q.device, self};
  const kernels::BlockedProduct product = product_of(q, p);
  const Rates rates = kernels::rates_of(q);
  const DType type = p.tensors[kA].dtype;
  const double multiply = 1e3 * 2 * multiply_adds(p) /
                          (rates.f32_flops * kernels::speed_of(level_of(q).blocks.multiplier));
  constexpr double kCall = 2e-4, kSmallCall = 3e-5;
  double one = kCall;
  switch (form_of(q, p)) {
    case Form::kBlocked:
      one +=
          kernels::estimate_blocked_ms(blocks, product, kernels::default_blocked(blocks, product)) -
          0.005;
      break;
    case Form::kFewRows:
      one += std::max(multiply, 1e3 * bytes_of_b(p) / rates.memory_bytes_per_s);
      break;
    case Form::kSmall:
      one = kSmallCall + (type == DType::kF32 ? 1.3 : 1.5) * multiply;
      break;
  }
  const auto count = static_cast<double>(q.problem.dims[kBatch]);
  const double all = count * one / threads_of(q.problem) + 0.005;
  const bool measured = !(q.device.amx && type == DType::kBF16);
  return measured ? all : std::max(all, 1.05 * each_ms(kernels::op_of<BatchedOp>(q), q));
}

}  // namespace

std::vector<Implementation> batched_cpu(const BatchedOp& op) {
  Implementation base;
  base.flags.deterministic = true;
  base.supports = supports;
  base.same_bits = [](const Query& q) {
    return kernels::bits_beside_units(q, q.problem.tensors[kA].dtype);
  };
  base.estimate = estimate;
  base.prepare = prepare;
  const char* const hash = source_hash<"ops/gemm/batched/batched_cpu.cpp">();
  const auto level = [hash](Isa isa, const ProductLevel& blocks, kernels::CpuUnit unit,
                            void (*small)(const GemmJob&, float*)) {
    const auto* const kept = new Level{blocks, &kernels::blocked_table(blocks), blocks.code, small};
    // `kept` lives as long as the process, as the implementation does.
    return kernels::CpuLevel{isa, hash, kept, nullptr, unit, unit != kernels::CpuUnit::kNone};
  };
  using kernels::CpuUnit;
  const MatmulLevels& of = kMatmulLevels;
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(DLBLAS_X86)
        level(Isa::kAvx512, kMatmulBf16, CpuUnit::kAvx512Bf16, nullptr),
            level(Isa::kAvx512, of.avx512, CpuUnit::kNone, avx512::small),
            level(Isa::kAvx2, of.avx2, CpuUnit::kNone, avx2::small),
#endif
            level(Isa::kBaseline, of.baseline, CpuUnit::kNone, baseline::small),
      },
      &op);
}

}  // namespace dlblas::gemm
