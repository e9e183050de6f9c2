// rms_norm_backward on CPUs: one implementation per instruction-set level. The sizes alone decide
// how rows are divided into chunks; one thread takes a chunk and adds to the chunk's own partial
// dweight in f32; the partial sums are added in order, in f64. So results have the same bits on any
// number of threads. In: Problem, Config; Args. Out: Kernel; dx and dweight. Flow: call > validate
// > [select] > [compile] > [launch]. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_config.hpp"

namespace dlblas::norm::backward {
namespace {

/// Code of an instruction-set level.
struct BackwardLevel {
  BackwardPasses (*passes)(const RmsNormBackwardTraits&, const RmsNormBackwardConfig&);
};
constexpr BackwardLevel kBaseline = {baseline::backward_passes};
#if defined(__x86_64__)
constexpr BackwardLevel kAvx2 = {avx2::backward_passes};
constexpr BackwardLevel kAvx512 = {avx512::backward_passes};
#endif

// ---- how rows are divided ----------------------------------------------------------------------

constexpr std::int64_t kMaxChunks = 64;  // while they have few rows: as many threads find work
constexpr std::int64_t kMaxRows = 256;   // a chunk: terms of dweight in f32
static_assert(kMaxRows <= kMaxRowsInF32);

/// Rows per chunk. Each chunk's partial dweight is written and read once in f32: eight rows of dy,
/// x and dx are at least six times as many bytes. A row that is enough work by itself may be a
/// chunk alone.
std::int64_t chunk_rows(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kElements = 32768;
  const std::int64_t least =
      std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, width), 1, 8);
  return std::clamp((rows + kMaxChunks - 1) / kMaxChunks, least, kMaxRows);
}
/// An upper bound of the chunks, for any number of rows up to this one.
std::int64_t most_chunks(std::int64_t rows) {
  return std::min(rows, std::max(kMaxChunks, (rows + kMaxRows - 1) / kMaxRows));
}

// ---- one call ----------------------------------------------------------------------------------

struct State {
  BackwardPasses passes;
  std::int64_t grain;  // chunks a task
  bool cast;
};

/// One call, as the tasks see it.
struct Job {
  const Args* args;
  const State* state;
  Rows maps[kDx + 1];  // by tensor; weight has none
  std::int64_t rows, width, chunk;
  double eps;
  float weight_offset;  // without a weight 0
  const float* ones;    // [width], what stands for it; null where there is one
  float* partials;      // [chunks, width]
  double* scales;       // [rows] r, where `sum_column` finds it

  const TensorView& tensor(int i) const { return args->tensors[i]; }
  char* row(int i, std::int64_t t) const {
    return static_cast<char*>(tensor(i).data) + maps[i].offset(t) * size_of(tensor(i).dtype);
  }
  double element(int i, std::int64_t t, std::int64_t c) const {
    return load_element(tensor(i), maps[i].offset(t) + c * unit(i));
  }
  std::int64_t unit(int i) const {
    const TensorView& t = tensor(i);
    return t.shape[t.rank - 1] <= 1 ? 1 : t.strides[t.rank - 1];
  }
  /// The index of column c's sum in a partial dweight.
  std::int64_t place(std::int64_t c) const {
    const std::int64_t pair = state->passes.pair;
    return c < width / pair * pair ? c - c % pair + state->passes.place[c % pair] : c;
  }
};

// One row in f64 and for any stride: for broadcast columns, and for rows whose sums leave the range
// of f32.
void run_row_exactly(const Job& job, std::int64_t t, float* partial) {
  const double offset = job.weight_offset;
  const auto factor = [&](std::int64_t c) {
    return (job.ones ? 1 : load_element(job.tensor(kWeight), c)) + offset;
  };
  const auto width = static_cast<double>(job.width);
  double squares = 0, mean = 0;
  for (std::int64_t c = 0; c < job.width; ++c) {
    const double x = job.element(kX, t, c);
    squares += x * x;
  }
  const double r = 1 / std::sqrt(squares / width + job.eps);
  job.scales[t] = r;
  for (std::int64_t c = 0; c < job.width; ++c)
    mean += job.element(kDy, t, c) * factor(c) * (job.element(kX, t, c) * r);
  mean /= width;
  const TensorView& dx = job.tensor(kDx);
  for (std::int64_t c = 0; c < job.width; ++c) {
    const double dy = job.element(kDy, t, c);
    double n = job.element(kX, t, c) * r;
    double v = r * (dy * factor(c) - n * mean);
    if (job.args->has(kDresidual)) v += job.element(kDresidual, t, c);
    store_element(dx, job.maps[kDx].offset(t) + c * job.unit(kDx), v);
    if (job.state->cast && dx.dtype != DType::kF32) n = round_to(dx.dtype, n);
    float& sum = partial[job.place(c)];
    sum = static_cast<float>(sum + dy * n);
  }
}

// Mean squares and mean products outside this range lost some or all of their bits in f32.
constexpr double kMin = 0x1p-100, kMax = 0x1p126;

// Products below 2^-126 lost bits as well, which a root above 1 makes visible. Rows whose dy is 0,
// as for masked tokens, have nothing to lose.
bool loses_products(const Job& job, std::int64_t t, double square, double product) {
  if (square >= 1 || std::abs(product) >= kMin) return false;
  const auto* dy = static_cast<const char*>(job.row(kDy, t));
  const auto bytes = static_cast<std::size_t>(job.width * size_of(job.tensor(kDy).dtype));
  return dy[0] != 0 || std::memcmp(dy, dy + 1, bytes - 1) != 0;
}

void run_row(const Job& job, std::int64_t t, BackwardRow& row) {
  row.dy = job.row(kDy, t);
  row.x = job.row(kX, t);
  row.dx = job.row(kDx, t);
  if (job.args->has(kDresidual)) row.dresidual = job.row(kDresidual, t);
  const BackwardSums sums = job.state->passes.sum(row);
  const double square = sums.squares / static_cast<double>(job.width) + job.eps;
  const double product = sums.products / static_cast<double>(job.width);
  const bool is_nan = std::isnan(square);  // so is all of the row, either way
  const bool fits = square >= kMin && square <= kMax && std::abs(product) <= kMax &&
                    !loses_products(job, t, square, product);
  if (!is_nan && !fits) return run_row_exactly(job, t, row.dweight);
  const double r = 1 / std::sqrt(square);
  job.scales[t] = r;
  job.state->passes.write(row, static_cast<float>(r), static_cast<float>(product * r));
}

void run_chunks(const Job& job, std::int64_t begin, std::int64_t end, bool unit_rows) {
  BackwardRow row = {};
  row.width = job.width;
  row.weight = job.ones ? job.ones : job.tensor(kWeight).data;
  row.weight_offset = job.weight_offset;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    row.dweight = job.partials + chunk * job.width;
    std::fill(row.dweight, row.dweight + job.width, 0.0f);
    const std::int64_t last = std::min(job.rows, (chunk + 1) * job.chunk);
    for (std::int64_t t = chunk * job.chunk; t < last; ++t) {
      if (unit_rows)
        run_row(job, t, row);
      else
        run_row_exactly(job, t, row.dweight);
    }
  }
}

// One column of dweight in f64, for a column whose chunk sums left the range of f32, though the
// whole may not.
double sum_column(const Job& job, std::int64_t c) {
  const DType dtype = job.tensor(kDx).dtype;
  double sum = 0;
  for (std::int64_t t = 0; t < job.rows && !std::isnan(sum); ++t) {
    double n = job.element(kX, t, c) * job.scales[t];
    // In f32 nothing is cast: an n rounded to 0 would turn an infinite dy into NaN.
    if (job.state->cast && dtype != DType::kF32) n = round_to(dtype, n);
    sum += job.element(kDy, t, c) * n;
  }
  return sum;
}

// Blocks [begin, end) of 256 columns of dweight: adds the chunks' sums, first to last.
void add_chunks(const Job& job, std::int64_t chunks, std::int64_t begin, std::int64_t end) {
  const TensorView& dweight = job.tensor(kDweight);
  const std::int64_t stride = job.width <= 1 ? 1 : dweight.strides[0];
  constexpr std::int64_t kBlock = 256;  // places of one block of columns lie in the same block
  static_assert(kBlock % kMaxPair == 0);
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t first = block * kBlock, count = std::min(kBlock, job.width - first);
    double sums[kBlock] = {};
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const float* partial = job.partials + chunk * job.width + first;
      for (std::int64_t c = 0; c < count; ++c) sums[c] += static_cast<double>(partial[c]);
    }
    for (std::int64_t c = 0; c < count; ++c) {
      double sum = sums[job.place(first + c) - first];
      if (!std::isfinite(sum)) sum = sum_column(job, first + c);
      store_element(dweight, (first + c) * stride, sum);
    }
  }
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  Job job;
  job.args = &args;
  job.state = &kernel.load<State>();
  job.rows = args.letters[kT];
  job.width = args.letters[kC];
  if (job.width == 0) return 0;
  job.eps = args.scalars[kEps].f;
  job.weight_offset = static_cast<float>(args.scalars[kWeightOffset].f);
  if (std::isnan(job.weight_offset))
    job.weight_offset = std::nanf("");  // Nans::kShort in the passes
  bool unit_rows = true;
  for (const int i : {kDy, kX, kDresidual, kDx}) {
    if (i == kDresidual && !args.has(i)) continue;
    job.maps[i] = rows_of(args.tensors[i]);
    unit_rows &= job.unit(i) == 1;
  }
  job.chunk = chunk_rows(job.rows, job.width);
  job.scales = static_cast<double*>(workspace);
  job.partials = reinterpret_cast<float*>(job.scales + job.rows);
  const std::int64_t chunks = (job.rows + job.chunk - 1) / job.chunk;
  job.ones = nullptr;
  if (!args.has(kWeight)) {
    float* ones = job.partials + chunks * job.width;
    std::fill_n(ones, job.width, 1.0f);
    job.ones = ones;
  }
  context.run(0, chunks, job.state->grain, [&](std::int64_t begin, std::int64_t end) {
    run_chunks(job, begin, end, unit_rows);
  });
  context.run(0, (job.width + 255) / 256, 16,
              [&](std::int64_t begin, std::int64_t end) { add_chunks(job, chunks, begin, end); });
  return 0;
}

// ---- before the call ---------------------------------------------------------------------------

const ConfigTable<RmsNormBackwardConfig>& table() {
  static const auto* knobs = new ConfigTable<RmsNormBackwardConfig>{
      field<&RmsNormBackwardConfig::unroll>("unroll", {1, 2, 4}),
      field<&RmsNormBackwardConfig::task_kib>("task_kib", {16, 64, 256}),
  };
  return *knobs;
}

void constrain(const Query& q, Space& space) {
  if (q.problem.flags & kDeterministic)
    space.require(
        table(), "the same bits: one number of accumulators", {"unroll"},
        [](const RmsNormBackwardConfig& c) { return c.unroll == RmsNormBackwardConfig().unroll; });
}

bool rows_are_strided(Layout layout) {
  return layout == Layout::kTransposed || layout == Layout::kOther;
}

Support supports(const Query& q) {
  if (q.problem.tensors[kWeight].layout != Layout::kContiguous)
    return Support::no("{} is not contiguous", tensor(kWeight));
  for (const Tensor i : kRowTensors)
    if (has(q.problem, i) && rows_are_strided(q.problem.tensors[i].layout))
      return Support::no("the last dimension of {} is not contiguous", tensor(i));
  return Support::yes();
}

double estimate(const Query& q, const Config&) {
  constexpr double kLaunches = 1.5;  // one for dx, and half of one for dweight
  const Rates rates = kernels::rates_of(q);
  const DType dtype = q.problem.tensors[kDy].dtype;
  const double elements = static_cast<double>(q.problem.dims[kT]) * q.problem.dims[kC];
  // dy, x and dresidual read, dx read and written.
  const double bytes = elements * size_of(dtype) * (has_residual(q.problem) ? 5 : 4);
  const bool cached = bytes <= static_cast<double>(q.device.l3_bytes);
  const int threads = std::max<int>(1, std::min<int>(q.problem.threads, q.device.units));
  return 1e3 * (kLaunches * rates.launch_s + bytes / (threads * rates.bytes_per_s(dtype, cached)));
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& problem = q.problem;
  const RmsNormBackwardConfig chosen = table().from_config(config);
  const std::int64_t width = problem.dims[kC], rows = problem.dims[kT];
  State state;
  state.cast = problem.scalars[kKeyCastBeforeWeight] != 0;
  const bool weighted = has(problem, kWeight);
  const RmsNormBackwardTraits traits = {problem.tensors[kDy].dtype,
                                        weighted ? problem.tensors[kWeight].dtype : DType::kF32,
                                        has_residual(problem), state.cast};
  state.passes = kernels::code_of<BackwardLevel>(q).passes(traits, chosen);
  const std::int64_t chunk_bytes =
      2 * chunk_rows(rows, width) * width * size_of(problem.tensors[kDy].dtype);
  state.grain =
      std::max<std::int64_t>(1, chosen.task_kib * 1024 / std::max<std::int64_t>(1, chunk_bytes));
  return make_kernel(
      {run}, state,
      static_cast<std::size_t>(rows) * sizeof(double) +
          static_cast<std::size_t>((most_chunks(rows) + (weighted ? 0 : 1)) * width) *
              sizeof(float));
}

}  // namespace

std::vector<Implementation> cpu() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
  base.supports = supports;
  base.constrain = constrain;
  base.heuristic = [](const Query&) { return table().to_config(RmsNormBackwardConfig{}); };
  base.estimate = estimate;
  base.prepare = prepare;
  return kernels::per_level(base, "cpu_", {
#if defined(__x86_64__)
    {Isa::kAvx512, source_hash<"ops/norm/rms_norm_backward/rms_norm_backward_avx512.cpp">(),
     &kAvx512},
        {Isa::kAvx2, source_hash<"ops/norm/rms_norm_backward/rms_norm_backward_avx2.cpp">(),
         &kAvx2},
#endif
        {Isa::kBaseline, source_hash<"ops/norm/rms_norm_backward/rms_norm_backward_baseline.cpp">(),
         &kBaseline},
  });
}

}  // namespace dlblas::norm::backward
