// Products of at most eight rows of x with packed weights on CPUs: a task is some columns, whose
// codes are unpacked in registers for all rows at once; nothing of the weight is written.
// In: Problem; Args. Out: Kernel; y. Flow: call > validate > [select] > compile > [launch].
// Read next: few_rows_simd.hpp, product.cpp (the form for any rows and layout).
#include <algorithm>
#include <cstring>

#include "core/element.hpp"
#include "core/integers.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/w4/few_rows_config.hpp"
#include "ops/w4/product.hpp"

namespace dlblas::w4 {
namespace {

using namespace product;

#if defined(__x86_64__)
struct Level {
  void (*run)(const FewRowsTask&);
  void (*widen)(Codes, DType, const void*, std::int64_t, float*);
  void (*narrow)(const float*, std::int64_t, DType, void*);
};
constexpr Level kAvx2 = {avx2::few_rows, avx2::few_rows_widen, avx2::few_rows_narrow};
constexpr Level kAvx512 = {avx512::few_rows, avx512::few_rows_widen, avx512::few_rows_narrow};

struct State {
  const Level* level;
  const ProductOp* op;
};

/// The kernels' numbers of rows: powers of 2. The others are zeros.
std::int32_t rows_for(std::int64_t rows) {
  std::int32_t n = 1;
  while (n < rows) n *= 2;
  return n;
}

/// One call, as the tasks see it.
struct Job {
  const Args& args;
  const State& state;
  FewRowsTask task;  // but for its columns and sums
  TensorView y;
  std::int64_t rows, columns;
};

/// Row `from` of 16-bit elements, `step` apart, adjacent in `own` if they are not.
const void* adjacent(const char* from, std::int64_t step, std::int64_t count, std::uint16_t* own) {
  if (step == 1 || count <= 1) return from;
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(own + i, from + 2 * i * step, 2);
  return own;
}

void widen_x(const Job& job, const TensorView& x, float* to, std::uint16_t* own) {
  const std::int64_t depth = job.task.depth;
  std::fill_n(to, job.task.rows * depth, 0.0f);
  for (std::int64_t m = 0; m < job.rows; ++m) {
    const char* from = static_cast<const char*>(x.data) + 2 * m * x.strides[0];
    job.state.level->widen(job.task.codes, x.dtype, adjacent(from, x.strides[1], depth, own), depth,
                           to + m * depth);
  }
}

void run_task(const Job& job, std::int64_t first) {
  alignas(64) float sums[kFewRows * kFewColumns];
  std::uint16_t made[kFewColumns];
  FewRowsTask task = job.task;
  task.first = first, task.columns = std::min<std::int64_t>(kFewColumns, job.columns - first);
  task.sums = sums;
  job.state.level->run(task);
  const bool biased = task.codes == Codes::kI8 && job.args.has(kBias);
  for (std::int64_t c = 0; c < task.columns && (task.scales_sums || biased); ++c) {
    const TensorView &scales = job.args.tensors[kScales], &bias = job.args.tensors[kBias];
    const double factor =
        task.scales_sums ? load_element(scales, (first + c) * scales.strides[0]) : 1;
    const double more = biased ? load_element(bias, (first + c) * bias.strides[0]) : 0;
    for (std::int64_t m = 0; m < job.rows; ++m) {
      float& sum = sums[m * kFewColumns + c];
      sum = sum * static_cast<float>(factor);
      if (biased) sum += static_cast<float>(more);
    }
  }
  for (std::int64_t m = 0; m < job.rows; ++m) {
    char* to =
        static_cast<char*>(job.y.data) + 2 * (m * job.y.strides[0] + first * job.y.strides[1]);
    const bool side_by_side = job.y.strides[1] == 1 || task.columns == 1;
    job.state.level->narrow(sums + m * kFewColumns, task.columns, job.y.dtype,
                            side_by_side ? static_cast<void*>(to) : made);
    for (std::int64_t c = 0; !side_by_side && c < task.columns; ++c)
      std::memcpy(to + 2 * c * job.y.strides[1], made + c, 2);
  }
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State>();
  const ProductOp& op = *s.op;
  const TensorView x = flat(args.tensors[kX]), &q = args.tensors[kQ];
  Job job{args, s, {}, flat(args.tensors[kY]), x.shape[0], op.columns(args.letters)};
  FewRowsTask& task = job.task;
  auto* const widened = static_cast<float*>(workspace);
  task.x = widened, task.rows = rows_for(job.rows);
  task.codes = op.codes, task.type = x.dtype;
  task.scales_sums = op.scales_sums(args.letters);
  task.plus = op.lacks_one(args) && args.has(kZeros) ? 1 : 0;
  task.words = q.data, task.word_row = q.strides[0];
  task.scales = args.tensors[kScales].data, task.scale_row = args.tensors[kScales].strides[0];
  if (op.codes != Codes::kI8 && args.has(kZeros))
    task.zeros = args.tensors[kZeros].data, task.zero_row = args.tensors[kZeros].strides[0];
  task.depth = op.depth(args.letters), task.group = op.group(args.letters);
  auto* const own = reinterpret_cast<std::uint16_t*>(widened + task.rows * task.depth);
  widen_x(job, x, widened, own);
  context.run(0, ceil_div(job.columns, kFewColumns), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) run_task(job, i * kFewColumns);
  });
  return 0;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<ProductOp>(q);
  const std::int64_t depth = op.depth(p.dims), group = op.group(p.dims);
  if (p.dims[kM] > kFewRows)
    return Support::no("{} has more than {} rows (bucket {})", tensor(kX), kFewRows, p.dims[kM]);
  if (depth == 0) return Support::no("{} has no columns", tensor(kX));
  if (depth % kFewStep != 0 || (!op.scales_sums(p.dims) && group % kFewStep != 0))
    return Support::no("{} columns in groups of {} are no multiples of {}", depth, group, kFewStep);
  // Sums are one chain per lane.
  constexpr std::int64_t kMax = 1 << 16;
  if (depth > kMax) return Support::no("{} columns; at most {}", depth, kMax);
  for (const int i : {int{kQ}, int{kScales}, int{kZeros}}) {
    const TensorTraits& t = p.tensors[i];
    if (t.dtype == DType::kAbsent || (i == kBias && op.codes == Codes::kI8)) continue;
    if (t.layout != Layout::kContiguous && t.layout != Layout::kRowStrided)
      return Support::no("the last dimension of {} is not contiguous", tensor(i));
    if (1 << t.align_log2 < size_of(t.dtype))
      return Support::no("{} is not aligned to its elements", tensor(i));
  }
  return Support::yes();
}

/// One thread of an AMD Zen 5, 2048 × 2048, November 2026: 0.21 ms at one row (AWQ; bf16) and 0.56
/// at eight; by panels 0.78.
double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<ProductOp>(q);
  const double columns = static_cast<double>(op.columns(p.dims));
  const double weight = static_cast<double>(op.depth(p.dims)) * columns;
  const double tasks = std::max(1.0, columns / kFewColumns);
  const double units = std::max<double>(1, std::min<double>(p.threads, tasks));
  const double bytes = product::weight_bytes(op, p);
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(
             units, bytes, weight * (5 + 2 * static_cast<double>(rows_for(p.dims[kM]))),
             DType::kF32);
}

Kernel prepare(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = kernels::op_of<ProductOp>(q);
  const std::int64_t depth = op.depth(p.dims);
  return make_kernel({run}, State{&kernels::code_of<Level>(q), &op},
                     static_cast<std::size_t>(rows_for(p.dims[kM]) * depth * 4 + depth * 2));
}
#endif

}  // namespace

std::vector<Implementation> few_rows_cpu([[maybe_unused]] const ProductOp& op) {
#if defined(__x86_64__)
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = supports;
  base.same_bits = [](const Query&) {
    return Support::no("adds up in another order than the form that takes more rows");
  };
  base.estimate = estimate;
  base.prepare = prepare;
  return kernels::per_level(base, "cpu_rows_",
                            {{Isa::kAvx512, source_hash<"ops/w4/few_rows_avx512.cpp">(), &kAvx512},
                             {Isa::kAvx2, source_hash<"ops/w4/few_rows_avx2.cpp">(), &kAvx2}},
                            &op);
#else
  return {};
#endif
}

}  // namespace dlblas::w4
