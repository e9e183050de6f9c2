// rms_norm_backward on NVIDIA GPUs: cuda_registers, which reads dy and x once and writes dx once;
// and what all its CUDA implementations share. In: Problem, Config; Args. Out: Kernel and its
// sources; launches. Flow: call > validate > [select] > [compile] > [launch]. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_registers.cuh,
// ops/norm/rms_norm_backward/rms_norm_backward_columns_cuda.cpp.
#include "ops/norm/rms_norm_backward/rms_norm_backward_cuda.hpp"

#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/norm/norm_ops.hpp"

namespace dlblas::norm::backward {
namespace {

// ---- traits ------------------------------------------------------------------------------------

}  // namespace

Support supports_rows(const Problem& problem) {
  if (problem.tensors[kWeight].layout != Layout::kContiguous)
    return Support::no("{} is not contiguous", tensor(kWeight));
  for (const Tensor i : kRowTensors)
    if (has(problem, i) && problem.tensors[i].layout != Layout::kContiguous &&
        problem.tensors[i].layout != Layout::kRowStrided)
      return Support::no("the rows of {} are not contiguous, at one stride", tensor(i));
  return Support::yes();
}

NormCudaTraits traits_of(const Problem& problem) {
  NormCudaTraits s = {};
  s.type = problem.tensors[kDy].dtype;
  const bool weighted = has(problem, kWeight);
  s.weight = weighted ? problem.tensors[kWeight].dtype : s.type;
  s.add = has_residual(problem);
  s.cast_before_weight = problem.scalars[kKeyCastBeforeWeight] != 0 && s.type != DType::kF32;
  s.align = 16;
  for (const Tensor i : kRowTensors)
    if (has(problem, i)) s.align = std::min(s.align, 1 << problem.tensors[i].align_log2);
  const std::int64_t row_bytes = problem.dims[kC] * size_of(s.type);
  while (s.align > 1 && row_bytes % s.align != 0) s.align /= 2;
  s.weight_align = weighted ? 1 << problem.tensors[kWeight].align_log2 : 0;
  // An access of several elements consists of 32-bit words.
  if (!supports_rows(problem) || (weighted && s.weight_align < 4))
    s.align = std::min(s.align, size_of(s.type));
  return s;
}

// ---- one call ----------------------------------------------------------------------------------

BackwardCudaParams params_of(const Args& args, void* partials) {
  BackwardCudaParams p = {};
  p.dy = args.tensors[kDy].data;
  p.x = args.tensors[kX].data;
  const bool weighted = args.has(kWeight);
  p.weight = weighted ? args.tensors[kWeight].data : nullptr;
  p.dx = args.tensors[kDx].data;
  p.partials = static_cast<float*>(partials);
  p.dy_stride = rows_of(args.tensors[kDy]).stride;
  p.x_stride = rows_of(args.tensors[kX]).stride;
  p.dx_stride = rows_of(args.tensors[kDx]).stride;
  if (args.has(kDresidual)) {
    p.dresidual = args.tensors[kDresidual].data;
    p.dresidual_stride = rows_of(args.tensors[kDresidual]).stride;
  }
  p.rows = args.letters[kT];
  p.width = args.letters[kC];
  p.eps = args.scalars[kEps].f;
  p.inverse_width = 1.0 / static_cast<double>(p.width);
  p.eps_f32 = static_cast<float>(p.eps);
  p.inverse_width_f32 = static_cast<float>(p.inverse_width);
  p.weight_offset = weighted ? static_cast<float>(args.scalars[kWeightOffset].f) : 1.0f;
  return p;
}

int fold(const Args& args, const cuda::Function& entry, const void* partials, std::int64_t groups,
         const Context& context) {
  const TensorView& dweight = args.tensors[kDweight];
  BackwardFoldParams p = {};
  p.partials = static_cast<const float*>(partials);
  p.dweight = dweight.data;
  p.width = args.letters[kC];
  p.dweight_stride = p.width <= 1 ? 1 : dweight.strides[0];
  p.groups = groups;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(ceil_div(p.width, kFoldColumns));
  how.block.x = kFoldColumns * kFoldParts;
  how.dependent = cuda::info(context.device.index).arch >= 90;
  return cuda::launch(entry, how, p, context.stream);
}

KernelSource fold_source(const Problem& problem) {
  const DType dtype = problem.tensors[kDweight].dtype;
  const int align = 1 << problem.tensors[kDweight].align_log2;
  return {"ops/norm/rms_norm_backward/rms_norm_backward_stages.cuh",
          text("dlblas::norm::norm_backward_fold<dlblas::DType(", static_cast<int>(dtype), "), ",
               align < size_of(dtype) ? 1 : static_cast<int>(size_of(dtype)), ">")};
}

double copy_ms(const Query& q, int passes) {
  constexpr double kCopy = 0.905;  // of what memory sustains: 3.8 TB/s on an H200
  const Problem& problem = q.problem;
  const double elements = static_cast<double>(problem.dims[kT]) * problem.dims[kC];
  const int tensors = 2 * passes + 1 + (has_residual(problem) ? 1 : 0);
  return elements * size_of(problem.tensors[kDy].dtype) * tensors * 1e3 /
         (kCopy * memory_bytes_per_s(q.device));
}

namespace {

// ---- cuda_registers ----------------------------------------------------------------------------

const ConfigTable<BackwardRegistersConfig>& registers_table() {
  using C = BackwardRegistersConfig;
  static const auto* knobs = new ConfigTable<C>{
      field<&C::threads>("threads", {8, 16, 32, 64, 128, 256, 512, 1024}),
      field<&C::vectors>("vectors", {1, 2, 4}),
      field<&C::rows>("rows", {1, 2, 4, 8, 16}),
      field<&C::blocks>("blocks", {1, 2, 3, 4}),
      field<&C::prefetch>("prefetch", {0, 1}),
  };
  return *knobs;
}

/// True if threads and vectors hold a row, and half the vectors (of one vector, half the threads)
/// would not.
bool fits(const NormCudaTraits& s, std::int64_t width, const BackwardRegistersConfig& c) {
  const std::int64_t access = static_cast<std::int64_t>(c.threads) * norm_elements(s);
  if (access * c.vectors < width) return false;
  if (c.vectors > 1) return access * (c.vectors / 2) < width;
  return c.threads == 8 || access / 2 < width;
}

/// Two accesses per thread if they hold the width; 512 threads per multiprocessor, which leaves 128
/// registers each; only as many rows per block as leave every multiprocessor a block. `threads` is
/// 0 if none fits.
BackwardRegistersConfig default_registers(const Problem& problem, const DeviceInfo& device) {
  const NormCudaTraits s = traits_of(problem);
  const std::int64_t width = problem.dims[kC];
  for (const std::int32_t vectors : {2, 1, 4})
    for (std::int32_t threads = 8; threads <= kMaxBlockThreads; threads *= 2)
      for (const bool prefetch : {true, false}) {
        BackwardRegistersConfig c = {threads, vectors, 1, 1, prefetch};
        if (!fits(s, width, c)) continue;
        const int most = threads > 512 ? 1 : std::min(16, 512 / threads);
        for (c.rows = most; c.rows > 1; c.rows /= 2)
          if (valid(s, c) && problem.dims[kT] >= std::int64_t{device.units} * c.rows) break;
        while (c.rows < most && !valid(s, c)) c.rows *= 2;  // a block has two warps at least
        if (!valid(s, c)) continue;
        while (c.blocks < 4 && 2 * c.blocks * c.rows * threads <= 512 &&
               problem.dims[kT] >= std::int64_t{device.units} * c.rows * c.blocks * 2)
          c.blocks *= 2;  // short rows
        if (valid(s, c)) return c;
      }
  return {.threads = 0};
}

struct Registers : BackwardForm<BackwardRegistersConfig> {
  static constexpr const char* kConfigName = "dlblas::norm::BackwardRegistersConfig";
  static const ConfigTable<BackwardRegistersConfig>& table() { return registers_table(); }

  static NormCudaTraits traits(const Query& q, const BackwardRegistersConfig& c) {
    NormCudaTraits s = traits_of(q.problem);
    s.full = std::int64_t{c.threads} * c.vectors * norm_elements(s) == q.problem.dims[kC];
    s.full = s.full && valid(s, c);  // bounds to check keep accesses apart: fewer registers
    return s;
  }

  static Support supports(const Query& q) { return supports_registers(q); }

  static BackwardRegistersConfig preset(const Query& q) {
    return default_registers(q.problem, q.device);
  }

  static void constrain(const Query& q, Space& space) {
    const NormCudaTraits s = traits_of(q.problem);
    space.require(table(), "threads and vectors hold one row and no more", {"threads", "vectors"},
                  [s, width = q.problem.dims[kC]](const BackwardRegistersConfig& c) {
                    return fits(s, width, c);
                  });
    space.require(table(), "a multiprocessor's registers hold its blocks",
                  [s](const BackwardRegistersConfig& c) { return valid(s, c); });
  }

  static double milliseconds(const Query& q, const BackwardRegistersConfig&) {
    return 6e-3 + copy_ms(q, 1);
  }

  /// Blocks for a number of rows: as many as are resident at once, or more if a thread would
  /// otherwise add too many rows in f32. Grows with the rows, so a bucket's end is an upper bound.
  static std::int64_t blocks_for(const State& s, std::int64_t rows) {
    const std::int64_t resident = static_cast<std::int64_t>(s.units) * s.config.blocks;
    const std::int64_t short_chains = ceil_div(rows, std::int64_t{kMaxRowsInF32} * s.config.rows);
    return std::min(std::max(resident, short_chains), ceil_div(rows, s.config.rows));
  }

  static std::size_t workspace_bytes(const Query& q, const State& state) {
    return static_cast<std::size_t>(blocks_for(state, q.problem.dims[kT]) * q.problem.dims[kC]) *
           sizeof(float);
  }

  static std::vector<KernelSource> sources(const Query& q, const State& state) {
    return {{"ops/norm/rms_norm_backward/rms_norm_backward_registers.cuh",
             kernels::cuda_entry<Registers>("dlblas::norm::norm_backward_registers", state)},
            fold_source(q.problem)};
  }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    if (args.letters[kT] == 0 || args.letters[kC] == 0) return 0;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(blocks_for(s, args.letters[kT]));
    how.block.x = static_cast<unsigned>(s.config.threads * s.config.rows);
    return cuda::launch(*kernel.entries[0], how, params_of(args, workspace), context.stream);
  }
  static int fold_partials(const Args& args, const Context& context, const Kernel& kernel,
                           void* workspace) {
    if (args.letters[kC] == 0) return 0;
    const std::int64_t groups = blocks_for(kernel.load<State>(), args.letters[kT]);
    return fold(args, *kernel.entries[1], workspace, groups, context);
  }
  static std::vector<StepFn> steps(const State&) { return {run, fold_partials}; }
};

}  // namespace

Support supports_registers(const Query& q) {
  if (const Support rows = supports_rows(q.problem); !rows) return rows;
  if (default_registers(q.problem, q.device).threads == 0)
    return Support::no("registers hold no row of {} elements in accesses of {} bytes",
                       q.problem.dims[kC], traits_of(q.problem).align);
  return Support::yes();
}

Problem typical_rows(const Problem& problem) {
  Problem p = problem;
  p.dims[kT] = 1024;
  return p;
}

Implementation cuda_registers() {
  return kernels::make_cuda<Registers>(
      "cuda_registers", source_hash<"ops/norm/rms_norm_backward/rms_norm_backward_cuda.cpp">());
}

std::vector<Implementation> cuda() { return {cuda_registers(), cuda_columns()}; }

}  // namespace dlblas::norm::backward
