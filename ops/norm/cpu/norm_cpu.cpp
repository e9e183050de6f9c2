// The norm kernels on CPUs, what is decided before a call runs: the knobs and their table, what a
// level supports, its default and its model, the prepared state. In: Problem, Config. Out: Kernel.
// Flow: call > validate > [select] > [compile] > launch.  Read next:
// ops/norm/cpu/norm_rows_cpu.cpp.
#include "ops/norm/cpu/norm_cpu.hpp"

#include <algorithm>
#include <cmath>

#include "generated/source_hashes.hpp"
#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {
namespace {

static_assert(static_cast<int>(DType::kF32) == static_cast<int>(Element::kF32) &&
              static_cast<int>(DType::kF16) == static_cast<int>(Element::kF16) &&
              static_cast<int>(DType::kBF16) == static_cast<int>(Element::kBF16));

static_assert(kChainColumns == kNormBlock);

constexpr NormLevel kBaseline = {baseline::norm_passes};
#if defined(__x86_64__)
constexpr NormLevel kAvx2 = {avx2::norm_passes};
constexpr NormLevel kAvx512 = {avx512::norm_passes};
#endif

// Measured on an AMD EPYC (Zen 4), 2 cores: see README.md for what each knob is worth.
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

const NormTensors& tensors_of(const Query& q) { return kernels::op_of<NormTensors>(q); }

DType dtype_of(const Query& q) { return q.problem.tensors[tensors_of(q).x].dtype; }

/// Bytes that a call reads and writes, but for the weight.
double bytes_of(const Query& q) {
  const double elements = static_cast<double>(q.problem.dims[kT]) * q.problem.dims[kC];
  return elements * size_of(dtype_of(q)) * (tensors_of(q).adds() ? 4 : 2);
}

std::int64_t row_bytes(const Query& q) { return q.problem.dims[kC] * size_of(dtype_of(q)); }

bool in_place(const Query& q) { return q.problem.tensors[tensors_of(q).y].alias != 0; }

Support supports(const Query& q) {
  const NormTensors& at = tensors_of(q);
  if (q.problem.tensors[at.weight].layout != Layout::kContiguous)
    return Support::no("{} is not contiguous", tensor(at.weight));
  for (const int i : at.rows())
    if (i >= 0 && rows_are_strided(q.problem.tensors[i].layout))
      return Support::no("the last dimension of {} is not contiguous", tensor(i));
  return Support::yes();
}

void constrain(const Query& q, Space& space) {
  const bool keeps = tensors_of(q).adds() && row_bytes(q) <= kNormScratchBytes;
  space.require(table(), "scratch is for the sum of x and residual, rows of at most 64 KiB",
                {"source"},
                [keeps](const NormConfig& c) { return keeps || c.source == NormSource::kRow; });
  if (q.problem.flags & kDeterministic)
    space.require(table(), "the same bits: one number of accumulators", {"unroll"},
                  [](const NormConfig& c) { return c.unroll == NormConfig().unroll; });
  // The line to be written was just read: past the caches it would first have to leave them.
  space.require(table(), "y shares x's memory: nothing to stream", {"store"},
                [aliased = in_place(q)](const NormConfig& c) {
                  return !aliased || c.store == NormStore::kCached;
                });
}

Config heuristic(const Query& q) {
  NormConfig config;
  const bool large = bytes_of(q) > static_cast<double>(q.device.l3_bytes);
  if (large && !in_place(q)) config.store = NormStore::kStreamed;
  // Two rows to read and two to write leave the hardware's prefetchers behind; one of each does
  // not.
  if (large && tensors_of(q).adds()) config.prefetch = NormPrefetch::kNextRow;
  return table().to_config(config);
}

double estimate(const Query& q, const Config& config) {
  const Rates rates = kernels::rates_of(q);
  const double bytes = bytes_of(q);
  const bool cached = bytes <= static_cast<double>(q.device.l3_bytes);
  const bool streamed = table().from_config(config).store == NormStore::kStreamed;
  // A store through the caches reads its line first: half as much again.
  const double moved = streamed || in_place(q) ? bytes : bytes * 1.5;
  const int threads = std::max<int>(1, std::min<int>(q.problem.threads, q.device.units));
  const double rate = rates.bytes_per_s(dtype_of(q), cached && !streamed);
  return 1e3 * (rates.launch_s + moved / (rate * threads));
}

Kernel prepare(const Query& q, const Config& config) {
  const NormTensors& at = tensors_of(q);
  State state;
  state.tensors = &at;
  state.config = table().from_config(config);
  state.cast = q.problem.scalars[kKeyCastBeforeWeight] != 0;
  const NormTraits traits = {static_cast<Element>(dtype_of(q)),
                             static_cast<Element>(q.problem.tensors[at.weight].dtype), at.adds(),
                             state.cast};
  state.passes = kernels::code_of<NormLevel>(q).passes(traits, state.config);
  state.grain = std::max<std::int64_t>(
      1, state.config.task_kib * 1024 / std::max<std::int64_t>(1, row_bytes(q)));
  return make_kernel({run}, state);
}

}  // namespace

bool rows_are_strided(Layout layout) {
  return layout == Layout::kTransposed || layout == Layout::kOther;
}

std::vector<Implementation> norm_cpu(const NormTensors& tensors) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
  base.supports = supports;
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash("ops/norm/cpu/norm_avx512.cpp"), &kAvx512},
            {Isa::kAvx2, source_hash("ops/norm/cpu/norm_avx2.cpp"), &kAvx2},
#endif
            {Isa::kBaseline, source_hash("ops/norm/cpu/norm_baseline.cpp"), &kBaseline},
      },
      &tensors);
}

}  // namespace dlblas::norm
