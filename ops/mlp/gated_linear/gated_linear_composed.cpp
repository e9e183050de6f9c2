// gated_linear composed of two f32 products by matmul's own choice and a pass that gates them: for
// where one pass over x loses, and the rival of all forms that make one. In: a Problem, later the
// Args of a call. Out: a Kernel of one step with two parts; the workspace holds the sums.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: core/nested.hpp,
// cuda/gated_linear_finish.cuh.
#include <algorithm>
#include <iterator>

#include "core/nested.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/mlp/gated_linear/cpu/gated_linear_config.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;  // of both sums

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::int64_t t = p.dims[kT], k = p.dims[kK], f = p.dims[kF];
  std::vector<Part> products;
  for (const int weight : {kGate, kUp})
    products.push_back(
        {"matmul",
         {{p.tensors[kX], {t, k}}, {exchanged(p.tensors[weight]), {k, f}}, {"out_dtype", "f32"}},
         {{DType::kF32, {t, f}}}});
  return products;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  for (const int i : {kGate, kUp})
    if (!lies_plainly(p.tensors[i].layout))
      return Support::no("{} is contiguous in neither dimension", tensor(i));
  const double bytes = 8.0 * static_cast<double>(p.dims[kT]) * static_cast<double>(p.dims[kF]);
  if (bytes > static_cast<double>(kMaxBytes))
    return Support::no("sums in f32 would take {} MiB: more than {}",
                       static_cast<std::int64_t>(bytes / (1 << 20)), kMaxBytes >> 20);
  return Support::yes();
}

/// Bytes of a product's sums, rounded up to the alignment that libraries need of the workspace
/// behind them.
std::int64_t sum_bytes(std::int64_t rows, std::int64_t columns) {
  return round_up(rows * columns * std::int64_t{sizeof(float)}, 256);
}
std::size_t workspace_of(const Problem& p) {
  return static_cast<std::size_t>(2 * sum_bytes(p.dims[kT], p.dims[kF]));
}

/// Runs both products; returns where their sums are.
struct Sums {
  float* of[2];
};
Sums multiply(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  Sums sums{};
  for (int part = 0; part < 2; ++part) {
    TensorView out = flat(args.tensors[kY]);
    out.dtype = DType::kF32;
    out.data = static_cast<char*>(workspace) + part * sum_bytes(out.shape[0], out.shape[1]);
    out.strides[0] = out.shape[1], out.strides[1] = 1;
    sums.of[part] = static_cast<float*>(out.data);
    const TensorView x = flat(args.tensors[kX]),
                     weight = exchanged(args.tensors[part == 0 ? kGate : kUp]);
    kernel.part(part)({x, weight, {"out_dtype", "f32"}}, {out}, context, workspace);
  }
  return sums;
}

// ---- CPU ----

int run_cpu(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const GatedLinearCode& code = *kernel.load<const GatedLinearCode*>();
  const Sums sums = multiply(args, context, kernel, workspace);
  const TensorView y = flat(args.tensors[kY]);
  const std::int64_t columns = y.shape[1];
  const GatedLinearFinish finish = {
      {{y.data, y.strides[0], y.strides[1], y.dtype},
       static_cast<Gate>(args.scalars[kActivation].i)},
      {{sums.of[0], columns, 1, DType::kF32}, {sums.of[1], columns, 1, DType::kF32}},
      columns};
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, columns));
  context.run(0, y.shape[0], grain,
              [&](std::int64_t begin, std::int64_t end) { code.finish(finish, begin, end); });
  return 0;
}
const GatedLinearCode& code_of(const DeviceInfo& device) {
#if defined(DLBLAS_X86)
  if (device.isa == Isa::kAvx512) return avx512::kGatedLinearCode;
  if (device.isa == Isa::kAvx2) return avx2::kGatedLinearCode;
#endif
  return baseline::kGatedLinearCode;
}
Kernel prepare_cpu(const Query& q, const Config&) {
  return make_kernel({run_cpu}, &code_of(q.device), workspace_of(q.problem));
}
/// The products at f32's rate, or reading the weights; then the pass over the sums.
double estimate_cpu(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const double threads = std::max<int>(1, p.threads);
  const Rates rates = unit_rates(q.device);
  const double sums = 2.0 * static_cast<double>(workspace_of(p)) / rates.cache_bytes_per_s;
  const double products = std::max(2 * multiply_adds(p) / rates.f32_flops,
                                   1.3 * bytes_of_weights(p) / rates.memory_bytes_per_s);
  return 1e3 * (products + sums) / threads + 0.02;
}

// ---- GPU ----

struct None {};

struct Finish : kernels::CudaForm<GatedLinearTraits, None> {
  static constexpr bool kDependent = true;
  static constexpr bool kSearched = false;
  static constexpr bool kIsDeterministic = false;  // other bits than one pass over x

  static Traits traits(const Query& q, const Config&) { return gated_traits(q.problem).gated; }
  static Support supports(const Query& q) { return mlp::supports(q); }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return workspace_of(q.problem);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/mlp/gated_linear/cuda/gated_linear_finish.cuh",
             gated_text("gated_finish", s.traits), 0}};
  }
  /// cuBLASLt's estimate for both products, then writing and reading the f32 sums.
  static double milliseconds(const Query& q, const None&) {
    const Problem& p = q.problem;
    constexpr double kProducts = 0.93, kMemory = 0.8;
    const double memory = kMemory * memory_bytes_per_s(q.device);
    const double products =
        std::max(2 * multiply_adds(p) / (kProducts * flops(q.device, p.tensors[kX].dtype)),
                 bytes_of_weights(p) / memory);
    return 1e3 * (products + 2.0 * static_cast<double>(workspace_of(p)) / memory +
                  3 * launch_s(q.device) + 3e-6);
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const Sums sums = multiply(args, context, kernel, workspace);
    const TensorView y = flat(args.tensors[kY]);
    const GatedFinishParams p = {
        {y.data, y.strides[0], y.strides[1]}, {sums.of[0], sums.of[1]}, y.shape[0], y.shape[1]};
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(
        ceil_div(p.rows * ceil_div(p.columns, kFinishColumns), kFinishThreads));
    how.block.x = kFinishThreads;
    how.dependent = kernel.load<State>().dependent;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

void append_composed(std::vector<Implementation>& to) {
  const char* const hash = source_hash<"ops/mlp/gated_linear/gated_linear_composed.cpp">();
  Implementation cpu;
  cpu.name = "composed";
  cpu.source_hash = hash;
  cpu.supports = supports;
  cpu.parts = parts;
  cpu.estimate = estimate_cpu;
  cpu.prepare = prepare_cpu;
  to.push_back(cpu);
  Implementation gpu = kernels::make_cuda<Finish>("cuda_composed", hash);
  gpu.parts = parts;
  to.push_back(gpu);
}

}  // namespace dlblas::mlp
