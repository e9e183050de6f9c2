// The norm kernels on CPUs, what is decided before a call runs: the knobs and their table, what a
// level supports, its default and its model, the prepared state. In: Problem, Config. Out: Kernel.
// Flow: call > validate > [select] > [compile] > launch.  Read next: ops/norm/norm_rows_cpu.cpp.
#include "ops/norm/norm_cpu.hpp"

#include <algorithm>
#include <cmath>

#include "generated/source_hashes.hpp"

namespace dlblas::norm {
namespace {

static_assert(static_cast<int>(DType::kF32) == static_cast<int>(Element::kF32) &&
              static_cast<int>(DType::kF16) == static_cast<int>(Element::kF16) &&
              static_cast<int>(DType::kBF16) == static_cast<int>(Element::kBF16));

/// Code of an instruction-set level, and the bytes a thread reads and writes each second, which
/// only rank candidates before anything is measured: rms_norm f32 512×4096 (cache) and 16384×4096
/// (memory), and the most where f16 is converted (512×4096), which the baseline does one by one.
/// AMD Zen 4, 2 threads, November 2026.
struct Level {
  Isa isa;
  NormPasses (*passes)(const NormTraits&, const NormConfig&);
  double cache_rate, memory_rate, f16_rate;
};
constexpr Level kBaseline = {Isa::kBaseline, baseline::norm_passes, 35e9, 10e9, 1.7e9};
#if defined(__x86_64__)
constexpr Level kAvx2 = {Isa::kAvx2, avx2::norm_passes, 48e9, 12e9, 28e9};
constexpr Level kAvx512 = {Isa::kAvx512, avx512::norm_passes, 51e9, 13e9, 28e9};
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

/// Bytes that a call reads and writes, but for the weight.
double bytes_of(const Slots& slots, const Problem& problem) {
  const double elements = static_cast<double>(problem.dims[kT]) * problem.dims[kC];
  return elements * size_of(problem.tensors[slots.x].dtype) * (slots.adds() ? 4 : 2);
}

bool in_place(const Slots& slots, const Problem& problem) {
  return problem.tensors[slots.y].alias != 0;
}

}  // namespace

bool rows_are_strided(Layout layout) {
  return layout == Layout::kTransposed || layout == Layout::kOther;
}

Support supports_level(const DeviceInfo& device, const Implementation& self) {
  const Isa isa = level_of(self).isa;
  if (isa == Isa::kAvx512 && device.isa < isa) {
    return Support::no(
        "needs AVX-512 (F, BW, VL, DQ), which this CPU lacks or DLBLAS_CPU_ISA rules out");
  }
  if (isa == Isa::kAvx2 && device.isa < isa) {
    return Support::no(
        "needs AVX2, FMA and F16C, which this CPU lacks or DLBLAS_CPU_ISA rules out");
  }
  return Support::yes();
}

Support same_bits(const Problem&, const DeviceInfo& device, const Implementation& self) {
  if (level_of(self).isa == device.isa) return Support::yes();
  return Support::no("adds up in another order than the widest instruction set that runs here");
}

Isa isa_of(const Implementation& self) { return level_of(self).isa; }

double bytes_per_second(const Implementation& self, DType dtype, bool cached) {
  const Level& level = level_of(self);
  const double rate = cached ? level.cache_rate : level.memory_rate;
  return dtype == DType::kF16 ? std::min(rate, level.f16_rate) : rate;
}

Support supports(const Slots& slots, const Problem& problem, const DeviceInfo& device,
                 const Implementation& self) {
  if (const Support fits = supports_level(device, self); !fits) return fits;
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
  if (problem.flags & kDeterministic)
    space.require(
        "the same bits: one number of accumulators", {"unroll"},
        [](const Config& config) { return config.values[kUnroll] == NormConfig().unroll; });
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
                const DeviceInfo& device, const Implementation& self) {
  constexpr double kDispatch = 2e-4;
  const double bytes = bytes_of(slots, problem);
  const bool cached = bytes <= static_cast<double>(device.l3_bytes);
  const bool streamed = config.values[kStore] == static_cast<int>(NormStore::kStreamed);
  // A store through the caches reads its line first: half as much again.
  const double moved = streamed || in_place(slots, problem) ? bytes : bytes * 1.5;
  const int threads = std::max<int>(1, std::min<int>(problem.threads, device.units));
  const double rate = bytes_per_second(self, problem.tensors[slots.x].dtype, cached && !streamed);
  return kDispatch + moved / (rate * threads) * 1e3;
}

Kernel prepare(const Slots& slots, const Problem& problem, const Config& config,
               const Implementation& self) {
  State state;
  state.slots = &slots;
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
  kernel.steps[0] = run;
  kernel.num_steps = 1;
  return kernel;
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
    impl.same_bits = same_bits;
    impl.user = const_cast<Level*>(row.level);
    all.push_back(impl);
  }
  return all;
}

}  // namespace dlblas::norm
