// Scalars, options and measured defaults of the norms that are row programs.
// Flow: call > validate > [select] > [compile] > [launch]. Read next:
// ops/norm/rms_norm/rms_norm_program.hpp, ops/norm/cuda/norm_cuda.hpp (the kernels made by hand).
#include "ops/norm/norm_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "core/error.hpp"
#include "ops/check_eps.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr int kWeight = 1;  // its place in the schemas of both

/// At least `width` zeros that stand in for an absent weight on CPUs. They live as long as the
/// process, and their pages are never written.
const float* zeros(std::int64_t width) {
  struct Zeros {
    std::int64_t width;
    const void* data;
  };
  static std::atomic<const Zeros*> made{nullptr};
  static std::mutex mutex;
  const Zeros* found = made.load(std::memory_order_acquire);
  if (!found || found->width < width) {
    const std::lock_guard lock(mutex);
    found = made.load(std::memory_order_relaxed);
    if (!found || found->width < width) {
      const std::int64_t wide = std::max(width, found ? 2 * found->width : 65536);
      const void* data = std::calloc(static_cast<std::size_t>(wide), sizeof(float));
      if (!data) throw std::bad_alloc();
      made.store(found = new Zeros{wide, data}, std::memory_order_release);  // the old may be read
    }
  }
  return static_cast<const float*>(found->data);
}

void fill(const Args& args, RowCall& call) {
  const double eps = args.scalars[kEps].f, inverse = 1.0 / static_cast<double>(args.letters[kC]);
  const float offset = args.has(kWeight) ? static_cast<float>(args.scalars[kWeightOffset].f) : 1.0f;
  if (!args.has(kWeight) && args.tensors[0].device.type == DeviceType::kCpu)
    call.operands[kWeight] = {const_cast<float*>(zeros(args.letters[kC])), 0, 1};
  call.f[0] = static_cast<float>(eps);
  call.f[1] = static_cast<float>(inverse);
  // CPU kernels assume that NaNs come from 16-bit values: see Nans in cpu/simd.hpp.
  call.f[2] = std::isnan(offset) ? std::nanf("") : offset;
  call.d[0] = eps;
  call.d[1] = inverse;
}

void choose(const Problem& problem, std::int32_t* options) {
  // An f32 value is already rounded to f32; without a weight the last rounding is the only one.
  options[1] = problem.tensors[kWeight].dtype != DType::kAbsent;
  options[0] = options[1] != 0 && problem.scalars[kKeyCastBeforeWeight] != 0 &&
               problem.tensors[0].dtype != DType::kF32;
}

int words_of(DType type, int elements) { return (elements * size_of(type) + 3) / 4; }

/// Registers per thread: its part of the row and of the weight, plus 32; 16 more for bounds checks;
/// both x and residual where ptxas issues all of their loads at once. `__launch_bounds__` needs
/// this: left alone, ptxas keeps each 16-bit element as a float across the barrier, 102 registers
/// instead of 64.
template <bool kAdds>
std::int32_t registers(const RowTraits& traits, const RowConfig& c) {
  const int row = words_of(traits.types[0], traits.n), weight = words_of(traits.types[1], traits.n);
  const int sum = kAdds && c.vectors > 4 ? c.vectors * row : 0;
  return c.vectors * (row + weight) + 32 + sum + (traits.full || c.vectors < 3 ? 0 : 16);
}

/// The fewest threads that hold the row in few vectors each, else in many. Threads × vectors ×
/// rows, measured with bf16 on H200, 2026-11-21: 1×4096 and 128×4096 256 × 2; 4096×4096, 16384×4096
/// 128 × 4 × 4; 16384×8192 256 × 4 × 2; with `add` 256 × 2 × 2 and 512 × 2; 262144×64 … 65536×256
/// 4, 8, 16 × 2 in blocks of 128, with `add` 8, 16, 32 × 1: all within 2 % of the best found.
void want_block(const kernels::RowQuery& q, bool adds, std::vector<RowConfig>& wanted) {
  const bool few = q.rows <= 2 * q.device.units, brief = q.accesses <= 64;
  const int best = few ? 2 : (brief ? 2 : 4) / (adds ? 2 : 1);
  for (const int most : {best, 4, 16}) {
    for (const int threads : {4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
      RowConfig c;
      c.threads = threads;
      c.vectors = kernels::row_vectors_for(q.accesses, threads);
      if (c.vectors == 0 || c.vectors > most) continue;
      c.rows = std::clamp((few ? 32 : brief ? 128 : 512) / threads, 1, 32);
      // Rows that do not fill all vectors take more registers: only small blocks use up the
      // register file.
      if (threads * c.vectors != q.accesses)
        c.rows = std::min(c.rows, std::clamp(128 / threads, 1, 32));
      wanted.push_back(c);
    }
  }
}

/// Small blocks of many vectors first. In µs, with bf16 on H200, 2026-11-22: 1024×65536 with 128
/// threads × 8 vectors × 8 blocks 66.3, with 256 × 4 × 8 74; 256×262144 with 128 × 16 × 16 70.5,
/// with 256 × 8 × 16 86. With `add`, which takes twice the registers: 256 × 8 × 16 129.7, 512 × 4 ×
/// 16 129.
void want_cluster(const kernels::RowQuery& q, bool adds, std::vector<RowConfig>& wanted) {
  const auto want = [&](int threads, int most) {
    RowConfig c;
    c.threads = threads;
    for (c.cluster = 2; c.cluster <= 16; c.cluster *= 2) {
      c.vectors = kernels::row_vectors_for(q.accesses, std::int64_t{threads} * c.cluster);
      if (c.vectors > 0 && c.vectors <= most) wanted.push_back(c);
    }
  };
  if (!adds) want(128, 8), want(128, 16);
  for (const int most : {8, 16})
    for (const int threads : {128, 256, 512, 1024}) want(threads, most);
}

/// The smallest cluster first.
void want_passes(const kernels::RowQuery& q, std::vector<RowConfig>& wanted) {
  RowConfig c;
  c.keep = q.kind == kernels::RowKernelKind::kShared;
  c.early = false;
  for (c.cluster = 1; c.cluster <= (c.keep && q.device.arch >= 90 ? 8 : 1); c.cluster *= 2) {
    const std::int64_t part = q.accesses / c.cluster;
    c.threads = part >= 4096 ? 1024 : part >= 2048 ? 512 : part >= 1024 ? 256 : 128;
    for (c.vectors = 4; c.vectors >= 2; c.vectors /= 2) wanted.push_back(c);
  }
}

template <bool kAdds>
std::vector<RowConfig> wanted(const kernels::RowQuery& q) {
  std::vector<RowConfig> all;
  if (q.kind == kernels::RowKernelKind::kRegisters)
    want_block(q, kAdds, all);
  else if (q.kind == kernels::RowKernelKind::kCluster)
    want_cluster(q, kAdds, all);
  else
    want_passes(q, all);
  return all;
}

/// bf16 on H200, 2026-11-22. Over a cluster, 1024×65536 takes 66.3 µs; a copy takes 65. With few
/// blocks per multiprocessor, reads and writes overlap poorly: 256×262144 takes 70.5 with three and
/// 86 with two. That matters less where two tensors are read and two written (129, like a copy). In
/// shared memory over a cluster, 1024×65536 and 256×262144 take 1.43 and 1.58 times a copy, with
/// `add` 1.07 and 1.13.
template <bool kAdds>
kernels::RowCost cost(const kernels::RowQuery& q, const RowConfig& c, bool alone) {
  const double last = !c.evict_last ? 1.0 : kAdds ? 0.96 : 0.985;
  switch (q.kind) {
    case kernels::RowKernelKind::kRegisters:
      return {last, 0};
    case kernels::RowKernelKind::kCluster:
      return {last * (kAdds || c.blocks > 3 ? 1.03 : c.blocks == 3 ? 1.09 : 1.28), 1e-3};
    case kernels::RowKernelKind::kShared:
      return {std::max(c.cluster > 1 ? (kAdds ? 1.13 : 1.5) : 1.0, alone ? 1.2 : 1.08), 0};
    case kernels::RowKernelKind::kRows:
      return {1.3, 0};
    default:
      return {10, 0};
  }
}

constexpr kernels::RowTuning kRow = {wanted<false>, registers<false>, cost<false>};
constexpr kernels::RowTuning kSum = {wanted<true>, registers<true>, cost<true>};

/// Implementations are ordered with the best guess first.
void insert_before(OperatorDef& def, const char* name, Implementation impl) {
  const auto at = std::find_if(
      def.implementations.begin(), def.implementations.end(),
      [name](const Implementation& other) { return std::strcmp(other.name, name) == 0; });
  def.implementations.insert(at, std::move(impl));
}

}  // namespace

void check_scalars(const Args& args) {
  check_eps<kEps>(args);
  const double offset = args.scalars[kWeightOffset].f;
  if (offset == 0) return;
  const Schema& schema = *args.schema;
  for (int i = 0; i < schema.num_inputs; ++i) {
    if (schema.tensors[static_cast<std::size_t>(i)].name != "weight" || args.has(i)) continue;
    const std::string got = text(offset);
    throw Error(ErrorKind::kArgument,
                text(schema.name, ": weight_offset has no weight to be added to; expected 0, got ",
                     got, "; leave it out, or give a weight"),
                {schema.name, "weight_offset", "0", got});
  }
}

void add_norm_implementations(OperatorDef& def, const NormTensors& tensors,
                              std::string_view program, std::vector<std::string_view> operands) {
  def.check = check_scalars;
  kernels::add_row_implementations(def, {.program = program,
                                         .width = "C",
                                         .operands = std::move(operands),
                                         .reduces = true,
                                         .kept = {"x"},
                                         .tuning = tensors.adds() ? &kSum : &kRow,
                                         .fill = fill,
                                         .choose = choose});
  insert_before(def, "cuda_cluster", cuda_ring(tensors));
  insert_before(def, "cuda_rows", cuda_split(tensors));
}

}  // namespace dlblas::norm
