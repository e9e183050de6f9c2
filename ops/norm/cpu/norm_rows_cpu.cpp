// The norm kernels on CPUs, one call: the loop over rows. In: Args and the prepared state. Out: the
// results' rows. A row is summed by one thread in an order that only its width and the
// configuration set, so results are the same bits in any batch, on any number of threads. Flow:
// call > validate > select > compile > [launch].  Read next: ops/norm/cpu/norm_simd.hpp.
#include <algorithm>
#include <cmath>

#include "core/element.hpp"
#include "cpu/simd.hpp"
#include "ops/norm/cpu/norm_cpu.hpp"

namespace dlblas::norm {
namespace {

/// One call, as the tasks see it.
struct Job {
  const NormTensors* tensors;
  const Args* args;
  const State* state;
  Rows x, residual, y, residual_out;
  std::int64_t rows, width;
  double eps;
  float weight_offset;

  char* row(int tensor, const Rows& map, std::int64_t t) const {
    const TensorView& view = args->tensors[tensor];
    return static_cast<char*>(view.data) + map.offset(t) * size_of(view.dtype);
  }
};

std::int64_t unit(const TensorView& t) {
  return t.shape[t.rank - 1] <= 1 ? 1 : t.strides[t.rank - 1];
}

// h = round(x + residual) of one row, element by element.
void add_exactly(const Job& job, std::int64_t t) {
  const TensorView& x = job.args->tensors[job.tensors->x];
  const TensorView& residual = job.args->tensors[job.tensors->residual];
  const TensorView& h = job.args->tensors[job.tensors->residual_out];
  const std::int64_t x0 = job.x.offset(t), r0 = job.residual.offset(t),
                     h0 = job.residual_out.offset(t);
  for (std::int64_t c = 0; c < job.width; ++c) {
    const auto a = static_cast<float>(load_element(x, x0 + c * unit(x)));
    const auto b = static_cast<float>(load_element(residual, r0 + c * unit(residual)));
    store_element(h, h0 + c * unit(h), a + b);
  }
}

// y of one row from x or h, in f64 and for any stride: for broadcast columns, and for rows whose
// squares leave the range of f32.
void normalize_exactly(const Job& job, std::int64_t t) {
  const NormTensors& at = *job.tensors;
  const TensorView& from = job.args->tensors[at.adds() ? at.residual_out : at.x];
  const TensorView& weight = job.args->tensors[at.weight];
  const TensorView& y = job.args->tensors[at.y];
  const std::int64_t from0 = (at.adds() ? job.residual_out : job.x).offset(t), y0 = job.y.offset(t);
  double sum = 0;
  for (std::int64_t c = 0; c < job.width; ++c) {
    const double v = load_element(from, from0 + c * unit(from));
    sum += v * v;
  }
  const double scale = 1 / std::sqrt(sum / static_cast<double>(job.width) + job.eps);
  for (std::int64_t c = 0; c < job.width; ++c) {
    double v = load_element(from, from0 + c * unit(from)) * scale;
    if (job.state->cast && y.dtype != DType::kF32) v = round_to(y.dtype, v);
    const double factor = load_element(weight, c) + job.weight_offset;
    // 0 · ∞ is no number: what is 0 in f32 is so here, too.
    if (std::isinf(factor)) v = round_to(DType::kF32, v);
    store_element(y, y0 + c * unit(y), v * factor);
  }
}

// Mean squares outside of this range lost bits, or all of them, on their way through f32.
constexpr double kMin = 0x1p-100, kMax = 0x1p126;

void run_row(const Job& job, std::int64_t t, void* scratch, NormRow& row) {
  const NormTensors& at = *job.tensors;
  const State& state = *job.state;
  const std::int64_t next = std::min(t + 1, job.rows - 1);
  const bool prefetches = state.config.prefetch == NormPrefetch::kNextRow;
  row.x = job.row(at.x, job.x, t);
  row.y = job.row(at.y, job.y, t);
  row.normed = row.x;
  if (prefetches) row.next_x = job.row(at.x, job.x, next);
  if (at.adds()) {
    row.residual = job.row(at.residual, job.residual, t);
    row.residual_out = job.row(at.residual_out, job.residual_out, t);
    row.kept = state.config.source == NormSource::kScratch ? scratch : row.residual_out;
    row.normed = row.kept;
    if (prefetches) row.next_residual = job.row(at.residual, job.residual, next);
  }
  const double sum = state.passes.first(row);
  const double square = sum / static_cast<double>(job.width) + job.eps;
  if (square < kMin || square > kMax) {
    if (at.adds() && state.config.source == NormSource::kScratch) add_exactly(job, t);
    return normalize_exactly(job, t);
  }
  state.passes.second(row, static_cast<float>(1 / std::sqrt(square)));
}

void run_rows(const Job& job, std::int64_t begin, std::int64_t end) {
  alignas(64) char scratch[kNormScratchBytes];  // touched only as far as source=scratch uses it
  NormRow row = {};
  row.width = job.width;
  row.weight = job.args->tensors[job.tensors->weight].data;
  row.weight_offset = job.weight_offset;
  for (std::int64_t t = begin; t < end; ++t) run_row(job, t, scratch, row);
  // Other threads may read the results as soon as this task has ended.
  if (job.state->config.store == NormStore::kStreamed) baseline::stream_fence();
}

bool has_unit_rows(const NormTensors& at, const Args& args) {
  if (unit(args.tensors[at.x]) != 1 || unit(args.tensors[at.y]) != 1) return false;
  return !at.adds() ||
         (unit(args.tensors[at.residual]) == 1 && unit(args.tensors[at.residual_out]) == 1);
}

}  // namespace

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  Job job;
  job.args = &args;
  job.state = &kernel.load<State>();
  const NormTensors& at = *job.state->tensors;
  job.tensors = &at;
  job.rows = args.letters[kT];
  job.width = args.letters[kC];
  if (job.rows == 0 || job.width == 0) return 0;
  job.eps = args.scalars[kEps].f;
  job.weight_offset = static_cast<float>(args.scalars[kWeightOffset].f);
  if (std::isnan(job.weight_offset))
    job.weight_offset = std::nanf("");  // Nans::kShort in norm_simd.hpp
  job.x = rows_of(args.tensors[at.x]);
  job.y = rows_of(args.tensors[at.y]);
  if (at.adds()) {
    job.residual = rows_of(args.tensors[at.residual]);
    job.residual_out = rows_of(args.tensors[at.residual_out]);
  }
  if (has_unit_rows(at, args)) {
    context.run(0, job.rows, job.state->grain,
                [&job](std::int64_t begin, std::int64_t end) { run_rows(job, begin, end); });
    return 0;
  }
  context.run(0, job.rows, job.state->grain, [&job](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      if (job.tensors->adds()) add_exactly(job, t);
      normalize_exactly(job, t);
    }
  });
  return 0;
}

}  // namespace dlblas::norm
