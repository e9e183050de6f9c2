// The norm kernels on CPUs, host side: the knobs and their table, what a level supports, its
// default and model, and the loop over rows. In: Problem, Config, Args. Out: the results' rows. A
// row is summed by one thread in an order that only its width and the configuration set, so results
// are the same bits in any batch, on any number of threads. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: ops/norm/norm_simd.hpp.
#include "ops/norm/norm_cpu.hpp"

#include <algorithm>
#include <cmath>

#include "core/element.hpp"
#include "cpu/simd.hpp"
#include "generated/source_hashes.hpp"

namespace dlblas::norm {
namespace {

static_assert(static_cast<int>(DType::kF32) == static_cast<int>(Element::kF32) &&
              static_cast<int>(DType::kF16) == static_cast<int>(Element::kF16) &&
              static_cast<int>(DType::kBF16) == static_cast<int>(Element::kBF16));

struct Level {
  Isa isa;
  NormPasses (*passes)(const NormTraits&, const NormConfig&);
};
constexpr Level kBaseline = {Isa::kBaseline, baseline::norm_passes};
#if defined(__x86_64__)
constexpr Level kAvx2 = {Isa::kAvx2, avx2::norm_passes};
constexpr Level kAvx512 = {Isa::kAvx512, avx512::norm_passes};
#endif
const Level& level_of(const Implementation& impl) { return *static_cast<const Level*>(impl.user); }

// Measured on an AMD EPYC (Zen 4), 2 cores: see README.md for what each knob is worth.
enum KnobIndex : int { kUnroll, kSource, kStore, kPrefetch, kTaskKib };
const ConfigTable<NormConfig>& table() {
  static const auto* knobs = new ConfigTable<NormConfig>{
      field<&NormConfig::unroll>("unroll", {1, 2, 4}),
      field<&NormConfig::source>("source", {0, 1}, {"row", "scratch"}),
      field<&NormConfig::store>("store", {0, 1}, {"cached", "streamed"}),
      field<&NormConfig::prefetch>("prefetch", {0, 1}, {"none", "next_row"}),
      field<&NormConfig::task_kib>("task_kib", {16, 64, 256}),
  };
  return *knobs;
}

/// What `prepare` leaves for the calls.
struct State {
  NormPasses passes;
  NormConfig config;
  std::int64_t grain;  // rows a task
  bool cast;
};

/// Bytes that a call reads and writes, but for the weight.
double bytes_of(const Slots& slots, const Problem& problem) {
  const double elements = static_cast<double>(problem.dims[kT]) * problem.dims[kC];
  return elements * size_of(problem.tensors[slots.x].dtype) * (slots.adds() ? 4 : 2);
}

bool in_place(const Slots& slots, const Problem& problem) {
  return problem.tensors[slots.y].alias != 0;
}

/// One call, as the tasks see it.
struct Job {
  const Slots* slots;
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
  const TensorView& x = job.args->tensors[job.slots->x];
  const TensorView& residual = job.args->tensors[job.slots->residual];
  const TensorView& h = job.args->tensors[job.slots->residual_out];
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
  const Slots& slots = *job.slots;
  const TensorView& from = job.args->tensors[slots.adds() ? slots.residual_out : slots.x];
  const TensorView& weight = job.args->tensors[slots.weight];
  const TensorView& y = job.args->tensors[slots.y];
  const std::int64_t from0 = (slots.adds() ? job.residual_out : job.x).offset(t),
                     y0 = job.y.offset(t);
  double sum = 0;
  for (std::int64_t c = 0; c < job.width; ++c) {
    const double v = load_element(from, from0 + c * unit(from));
    sum += v * v;
  }
  const double scale = 1 / std::sqrt(sum / static_cast<double>(job.width) + job.eps);
  for (std::int64_t c = 0; c < job.width; ++c) {
    double v = load_element(from, from0 + c * unit(from)) * scale;
    if (job.state->cast) v = round_to(y.dtype, v);
    store_element(y, y0 + c * unit(y), v * (load_element(weight, c) + job.weight_offset));
  }
}

// Mean squares outside of this range lost bits, or all of them, on their way through f32.
constexpr double kLeast = 0x1p-100, kMost = 0x1p126;

void run_row(const Job& job, std::int64_t t, void* scratch, NormRow& row) {
  const Slots& slots = *job.slots;
  const State& state = *job.state;
  const std::int64_t next = std::min(t + 1, job.rows - 1);
  const bool prefetches = state.config.prefetch == NormPrefetch::kNextRow;
  row.x = job.row(slots.x, job.x, t);
  row.y = job.row(slots.y, job.y, t);
  row.normed = row.x;
  if (prefetches) row.next_x = job.row(slots.x, job.x, next);
  if (slots.adds()) {
    row.residual = job.row(slots.residual, job.residual, t);
    row.residual_out = job.row(slots.residual_out, job.residual_out, t);
    row.kept = state.config.source == NormSource::kScratch ? scratch : row.residual_out;
    row.normed = row.kept;
    if (prefetches) row.next_residual = job.row(slots.residual, job.residual, next);
  }
  const double sum = state.passes.first(row);
  const double square = sum / static_cast<double>(job.width) + job.eps;
  if (square < kLeast || square > kMost) {
    if (slots.adds() && state.config.source == NormSource::kScratch) add_exactly(job, t);
    return normalize_exactly(job, t);
  }
  state.passes.second(row, static_cast<float>(1 / std::sqrt(square)));
}

void run_rows(const Job& job, std::int64_t begin, std::int64_t end) {
  alignas(64) char scratch[kNormScratchBytes];  // touched only as far as source=scratch uses it
  NormRow row = {};
  row.width = job.width;
  row.weight = job.args->tensors[job.slots->weight].data;
  row.weight_offset = job.weight_offset;
  for (std::int64_t t = begin; t < end; ++t) run_row(job, t, scratch, row);
  // Other threads may read the results as soon as this task has ended.
  if (job.state->config.store == NormStore::kStreamed) baseline::stream_fence();
}

bool has_unit_rows(const Slots& slots, const Args& args) {
  if (unit(args.tensors[slots.x]) != 1 || unit(args.tensors[slots.y]) != 1) return false;
  return !slots.adds() ||
         (unit(args.tensors[slots.residual]) == 1 && unit(args.tensors[slots.residual_out]) == 1);
}

bool rows_are_strided(Layout layout) {
  return layout == Layout::kTransposed || layout == Layout::kOther;
}

}  // namespace

Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                 const Implementation& self) {
  const Isa isa = level_of(self).isa;
  if (isa == Isa::kAvx512 && device.isa < isa) {
    return Support::no(
        "needs AVX-512 (F, BW, VL, DQ), which this CPU lacks or DLBLAS_CPU_ISA rules out");
  }
  if (isa == Isa::kAvx2 && device.isa < isa) {
    return Support::no(
        "needs AVX2, FMA and F16C, which this CPU lacks or DLBLAS_CPU_ISA rules out");
  }
  if (problem.tensors[slots.weight].layout != Layout::kContiguous) {
    return Support::no("weight is not contiguous");
  }
  if (rows_are_strided(problem.tensors[slots.x].layout)) {
    return Support::no("the last dimension of x is not contiguous");
  }
  if (rows_are_strided(problem.tensors[slots.y].layout)) {
    return Support::no("the last dimension of y is not contiguous");
  }
  if (slots.adds() && rows_are_strided(problem.tensors[slots.residual].layout)) {
    return Support::no("the last dimension of residual is not contiguous");
  }
  if (slots.adds() && rows_are_strided(problem.tensors[slots.residual_out].layout)) {
    return Support::no("the last dimension of residual_out is not contiguous");
  }
  return Support::yes();
}

void constrain(const Slots& slots, const Problem& problem, Space& space) {
  const std::int64_t row_bytes = problem.dims[kC] * size_of(problem.tensors[slots.x].dtype);
  const bool keeps = slots.adds() && row_bytes <= kNormScratchBytes;
  space.require("scratch is for the sum of x and residual, rows of at most 64 KiB", {"source"},
                [keeps](const Config& config) {
                  return keeps || config.values[kSource] == static_cast<int>(NormSource::kRow);
                });
  const bool aliased = in_place(slots, problem);
  // The line to be written was just read: past the caches it would first have to leave them.
  space.require("y shares x's memory: nothing to stream", {"store"},
                [aliased](const Config& config) {
                  return !aliased || config.values[kStore] == static_cast<int>(NormStore::kCached);
                });
}

Config heuristic(const Slots& slots, const Problem& problem, const DeviceInfo& device) {
  NormConfig config;
  const bool large = bytes_of(slots, problem) > static_cast<double>(device.l3_bytes);
  if (large && !in_place(slots, problem)) config.store = NormStore::kStreamed;
  // Two rows to read and two to write leave the hardware's prefetchers behind; one of each does
  // not.
  if (large && slots.adds()) config.prefetch = NormPrefetch::kNextRow;
  return table().erase(config);
}

double estimate(const Slots& slots, const Problem& problem, const Config& config,
                const DeviceInfo& device) {
  // Rates of one Zen 4 core, rounded down; only their order matters to the choice.
  constexpr double kCacheRate = 40e9, kMemoryRate = 12e9, kDispatch = 2e-4;
  const double bytes = bytes_of(slots, problem);
  const bool cached = bytes <= static_cast<double>(device.l3_bytes);
  const bool streamed = config.values[kStore] == static_cast<int>(NormStore::kStreamed);
  // A store through the caches reads its line first: half as much again.
  const double moved = streamed || in_place(slots, problem) ? bytes : bytes * 1.5;
  const int threads = std::max<int>(1, std::min<int>(problem.threads, device.units));
  const double rate = (cached && !streamed ? kCacheRate : kMemoryRate) * threads;
  return kDispatch + moved / rate * 1e3;
}

Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
               const Implementation& self) {
  State state;
  state.config = table().restore(config);
  state.cast = problem.scalars[kKeyCastBeforeWeight] != 0;
  const NormTraits traits = {static_cast<Element>(problem.tensors[slots.x].dtype),
                             static_cast<Element>(problem.tensors[slots.weight].dtype),
                             slots.adds(), state.cast};
  state.passes = level_of(self).passes(traits, state.config);
  const std::int64_t row_bytes = problem.dims[kC] * size_of(problem.tensors[slots.x].dtype);
  state.grain = std::max<std::int64_t>(
      1, state.config.task_kib * 1024 / std::max<std::int64_t>(1, row_bytes));
  Kernel kernel;
  kernel.implementation = &self;
  kernel.store(state);
  return kernel;
}

int run(const Slots& slots, const Args& args, const Context& context, const Kernel& kernel) {
  Job job;
  job.slots = &slots;
  job.args = &args;
  job.state = &kernel.load<State>();
  job.rows = args.letters[kT];
  job.width = args.letters[kC];
  if (job.rows == 0 || job.width == 0) return 0;
  job.eps = args.scalars[kEps].f;
  job.weight_offset = static_cast<float>(args.scalars[kWeightOffset].f);
  if (std::isnan(job.weight_offset))
    job.weight_offset = std::nanf("");  // Nans::kShort in norm_simd.hpp
  job.x = rows_of(args.tensors[slots.x]);
  job.y = rows_of(args.tensors[slots.y]);
  if (slots.adds()) {
    job.residual = rows_of(args.tensors[slots.residual]);
    job.residual_out = rows_of(args.tensors[slots.residual_out]);
  }
  if (has_unit_rows(slots, args)) {
    context.run(0, job.rows, job.state->grain,
                [&job](std::int64_t begin, std::int64_t end) { run_rows(job, begin, end); });
    return 0;
  }
  context.run(0, job.rows, job.state->grain, [&job](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      if (job.slots->adds()) add_exactly(job, t);
      normalize_exactly(job, t);
    }
  });
  return 0;
}

std::vector<Implementation> levels() {
  struct Row {
    const char* name;
    const char* hash;
    const Level* level;
  };
  constexpr Row kRows[] = {
#if defined(__x86_64__)
    {"cpu_avx512", source_hash("ops/norm/norm_avx512.cpp"), &kAvx512},
    {"cpu_avx2", source_hash("ops/norm/norm_avx2.cpp"), &kAvx2},
#endif
    {"cpu_baseline", source_hash("ops/norm/norm_baseline.cpp"), &kBaseline},
  };
  std::vector<Implementation> all;
  for (const Row& row : kRows) {
    Implementation impl;
    impl.name = row.name;
    impl.source_hash = row.hash;
    impl.flags = {.deterministic = true};
    impl.knobs = &table();
    impl.user = const_cast<Level*>(row.level);
    all.push_back(impl);
  }
  return all;
}

}  // namespace dlblas::norm
