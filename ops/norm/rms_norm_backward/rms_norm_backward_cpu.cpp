// rms_norm_backward on CPUs: one implementation per instruction-set level. The sizes alone decide
// how rows are divided into chunks; one thread takes a chunk and adds to the chunk's own partial
// dweight in f32; the partial sums are added in order, in f64. So results have the same bits on any
// number of threads. Rows whose elements are not adjacent in memory are copied, a few at a time.
// In: Problem, Config; Args. Out: Kernel; dx and dweight. Flow: call > validate > [select] >
// [compile] > [launch]. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_simd.hpp.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "kernels/row_operator.hpp"
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

/// Memory for copies of rows: each part of the chunks is taken by one thread at a time, and copies
/// `rows` rows of each such tensor at once. parts = 0: nothing is copied.
struct Copies {
  std::uint32_t tensors = 0;  // bit i: rows of tensor i are copied
  std::int32_t parts = 0, rows = 0;
  std::int64_t pitch = 0;  // bytes from a copied row to the next

  bool has(int tensor) const { return tensors >> tensor & 1u; }
  std::int64_t tensor_bytes() const { return rows * pitch; }
  std::int64_t part_bytes() const { return std::popcount(tensors) * tensor_bytes(); }
};

struct State {
  BackwardPasses passes;
  std::int64_t grain;  // chunks a task
  bool cast;
  Copies copies;
};

/// One call, as the tasks see it.
struct Job {
  const Args* args;
  const State* state;
  Rows maps[kDx + 1];  // by tensor; weight has none
  std::int64_t rows, width, chunk;
  double eps;
  float weight_offset;
  const void* weight;  // [width], contiguous: given, copied, or ones
  DType weight_type;
  float* partials;  // [chunks, width]
  double* scales;   // [rows] r, where `sum_column` finds it
  char* copies;     // State::copies

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

// One row in f64: for rows whose sums leave the range of f32.
void run_row_exactly(const Job& job, std::int64_t t, const BackwardRow& row) {
  const auto list = [](const void* data, DType dtype) {
    TensorView view;
    view.data = const_cast<void*>(data), view.dtype = dtype;
    return view;
  };
  const DType dtype = job.tensor(kDx).dtype;
  const TensorView of_dy = list(row.dy, dtype), of_x = list(row.x, dtype);
  const TensorView residual = list(row.dresidual, dtype), dx = list(row.dx, dtype);
  const TensorView weight = list(job.weight, job.weight_type);
  const double offset = job.weight_offset;
  const auto factor = [&](std::int64_t c) { return load_element(weight, c) + offset; };
  const auto width = static_cast<double>(job.width);
  double squares = 0, mean = 0;
  for (std::int64_t c = 0; c < job.width; ++c) {
    const double x = load_element(of_x, c);
    squares += x * x;
  }
  const double r = 1 / std::sqrt(squares / width + job.eps);
  job.scales[t] = r;
  for (std::int64_t c = 0; c < job.width; ++c)
    mean += load_element(of_dy, c) * factor(c) * (load_element(of_x, c) * r);
  mean /= width;
  for (std::int64_t c = 0; c < job.width; ++c) {
    const double dy = load_element(of_dy, c);
    double n = load_element(of_x, c) * r;
    double v = r * (dy * factor(c) - n * mean);
    if (row.dresidual) v += load_element(residual, c);
    store_element(dx, c, v);
    if (job.state->cast && dtype != DType::kF32) n = round_to(dtype, n);
    float& sum = row.dweight[job.place(c)];
    sum = static_cast<float>(sum + dy * n);
  }
}

// Mean squares and mean products outside this range lost some or all of their bits in f32.
constexpr double kMin = 0x1p-100, kMax = 0x1p126;

// Products below 2^-126 lost bits as well, which a root above 1 makes visible. Rows whose dy is 0,
// as for masked tokens, have nothing to lose.
bool loses_products(const Job& job, const BackwardRow& row, double square, double product) {
  if (square >= 1 || std::abs(product) >= kMin) return false;
  const auto* dy = static_cast<const char*>(row.dy);
  const auto bytes = static_cast<std::size_t>(job.width * size_of(job.tensor(kDy).dtype));
  return dy[0] != 0 || std::memcmp(dy, dy + 1, bytes - 1) != 0;
}

void run_row(const Job& job, std::int64_t t, const BackwardRow& row) {
  const BackwardSums sums = job.state->passes.sum(row);
  const double square = sums.squares / static_cast<double>(job.width) + job.eps;
  const double product = sums.products / static_cast<double>(job.width);
  const bool is_nan = std::isnan(square);  // so is all of the row, either way
  const bool fits = square >= kMin && square <= kMax && std::abs(product) <= kMax &&
                    !loses_products(job, row, square, product);
  if (!is_nan && !fits) return run_row_exactly(job, t, row);
  const double r = 1 / std::sqrt(square);
  job.scales[t] = r;
  job.state->passes.write(row, static_cast<float>(r), static_cast<float>(product * r));
}

// Copies rows [begin, end) of tensor i to `to`, or back.
template <typename T>
void copy_rows(const Job& job, int i, std::int64_t begin, std::int64_t end, char* to, bool back) {
  constexpr std::int64_t kAhead = 16;
  const std::int64_t unit = job.unit(i), pitch = job.state->copies.pitch;
  const Rows& map = job.maps[i];
  T* const base = static_cast<T*>(job.tensor(i).data);
  const auto copied = [&](std::int64_t t) {
    return reinterpret_cast<T*>(to + (t - begin) * pitch);
  };
  const auto copy = [&](T* from, T* at) {
    back ? std::memcpy(from, at, sizeof(T)) : std::memcpy(at, from, sizeof(T));
  };
  bool adjacent = true;  // rows run down the columns of memory
  for (std::int64_t t = begin; t + 1 < end; ++t) adjacent &= map.offset(t + 1) == map.offset(t) + 1;
  if (adjacent) {
    T* const first = base + map.offset(begin);
    for (std::int64_t c = 0; c < job.width; ++c) {
      __builtin_prefetch(first + (c + kAhead) * unit);
      for (std::int64_t t = begin; t < end; ++t)
        copy(first + c * unit + (t - begin), copied(t) + c);
    }
    return;
  }
  for (std::int64_t t = begin; t < end; ++t)
    for (std::int64_t c = 0; c < job.width; ++c)
      copy(base + map.offset(t) + c * unit, copied(t) + c);
}
void copy_rows(const Job& job, int i, std::int64_t begin, std::int64_t end, char* to, bool back) {
  if (size_of(job.tensor(i).dtype) == 2)
    copy_rows<std::uint16_t>(job, i, begin, end, to, back);
  else
    copy_rows<std::uint32_t>(job, i, begin, end, to, back);
}

// Rows [begin, end) of one chunk; `memory` is this part's of the copies.
void run_rows(const Job& job, std::int64_t begin, std::int64_t end, char* memory,
              BackwardRow& row) {
  const Copies& copies = job.state->copies;
  char* at[kDx + 1] = {};
  for (const int i : {kDy, kX, kDresidual, kDx}) {
    if (!copies.has(i)) continue;
    at[i] = memory, memory += copies.tensor_bytes();
    if (i != kDx) copy_rows(job, i, begin, end, at[i], false);
  }
  const auto place = [&](int i, std::int64_t t) {
    return at[i] ? at[i] + (t - begin) * copies.pitch : job.row(i, t);
  };
  for (std::int64_t t = begin; t < end; ++t) {
    row.dy = place(kDy, t), row.x = place(kX, t), row.dx = place(kDx, t);
    if (job.args->has(kDresidual)) row.dresidual = place(kDresidual, t);
    run_row(job, t, row);
  }
  if (at[kDx]) copy_rows(job, kDx, begin, end, at[kDx], true);
}

void run_chunks(const Job& job, std::int64_t begin, std::int64_t end, char* memory) {
  BackwardRow row = {};
  row.width = job.width;
  row.weight = job.weight;
  row.weight_offset = job.weight_offset;
  const Copies& copies = job.state->copies;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    row.dweight = job.partials + chunk * job.width;
    std::fill(row.dweight, row.dweight + job.width, 0.0f);
    const std::int64_t last = std::min(job.rows, (chunk + 1) * job.chunk);
    const std::int64_t step = copies.parts > 0 ? copies.rows : job.chunk;
    for (std::int64_t t = chunk * job.chunk; t < last; t += step)
      run_rows(job, t, std::min(last, t + step), memory, row);
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

// What rows are multiplied by, contiguous; `own`: room for `width` elements.
void set_weight(Job& job, float* own) {
  job.weight = own, job.weight_type = DType::kF32;
  if (!job.args->has(kWeight)) {
    std::fill_n(own, job.width, 1.0f);
    return;
  }
  const TensorView& given = job.tensor(kWeight);
  const std::int64_t size = size_of(given.dtype), step = given.strides[0] * size;
  job.weight_type = given.dtype;
  if (job.width <= 1 || step == size) {
    job.weight = given.data;
    return;
  }
  for (std::int64_t c = 0; c < job.width; ++c)
    std::memcpy(reinterpret_cast<char*>(own) + c * size,
                static_cast<const char*>(given.data) + c * step, static_cast<std::size_t>(size));
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
  for (const int i : {kDy, kX, kDresidual, kDx})
    if (i != kDresidual || args.has(i)) job.maps[i] = rows_of(args.tensors[i]);
  job.chunk = chunk_rows(job.rows, job.width);
  job.scales = static_cast<double*>(workspace);
  job.partials = reinterpret_cast<float*>(job.scales + job.rows);
  const std::int64_t chunks = (job.rows + job.chunk - 1) / job.chunk;
  float* const own_weight = job.partials + chunks * job.width;
  set_weight(job, own_weight);
  const Copies& copies = job.state->copies;
  if (copies.parts > 0) {
    char* const memory = reinterpret_cast<char*>(own_weight + job.width);
    const std::int64_t share = (chunks + copies.parts - 1) / copies.parts;
    context.run(0, copies.parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part)
        run_chunks(job, part * share, std::min(chunks, (part + 1) * share),
                   memory + part * copies.part_bytes());
    });
  } else {
    context.run(0, chunks, job.state->grain, [&](std::int64_t begin, std::int64_t end) {
      run_chunks(job, begin, end, nullptr);
    });
  }
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

bool is_copied(const Problem& problem, int tensor) {
  return problem.tensors[tensor].dtype != DType::kAbsent &&
         !kernels::has_unit_columns(problem.tensors[tensor].layout);
}

Copies copies_of(const Problem& problem) {
  constexpr std::int64_t kLine = 64, kMaxBytes = std::int64_t{2} << 20;
  Copies copies;
  for (const int i : {kDy, kX, kDresidual, kDx})
    if (is_copied(problem, i)) copies.tensors |= 1u << i;
  if (copies.tensors == 0) return copies;
  const std::int64_t size = size_of(problem.tensors[kDy].dtype);
  // A power of 2 would map the rows to the same sets of a cache.
  copies.pitch = (problem.dims[kC] * size + kLine - 1) / kLine * kLine + kLine;
  const std::int64_t fit = kMaxBytes / (copies.pitch * std::popcount(copies.tensors));
  copies.rows = static_cast<std::int32_t>(std::clamp<std::int64_t>(fit, 1, kLine / size));
  copies.parts = std::max<std::int32_t>(1, problem.threads);
  return copies;
}

double estimate(const Query& q, const Config&) {
  constexpr double kLaunches = 1.5;  // one for dx, and half of one for dweight
  const Rates rates = kernels::rates_of(q);
  const DType dtype = q.problem.tensors[kDy].dtype;
  const double elements = static_cast<double>(q.problem.dims[kT]) * q.problem.dims[kC];
  // dy, x and dresidual read, dx read and written; a copy takes as long as two more.
  double passes = has_residual(q.problem) ? 5 : 4;
  for (const int i : {kDy, kX, kDresidual, kDx}) passes += is_copied(q.problem, i) ? 2 : 0;
  const double bytes = elements * size_of(dtype) * passes;
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
  state.copies = copies_of(problem);
  return make_kernel({run}, state,
                     static_cast<std::size_t>(rows) * sizeof(double) +
                         static_cast<std::size_t>((most_chunks(rows) + 1) * width) * sizeof(float) +
                         static_cast<std::size_t>(state.copies.parts * state.copies.part_bytes()));
}

}  // namespace

std::vector<Implementation> cpu() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
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
