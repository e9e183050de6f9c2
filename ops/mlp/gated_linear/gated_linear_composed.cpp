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
#include "kernels/blocked_product.hpp"
#include "ops/mlp/gated_linear/cpu/gated_linear_config.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;  // of both sums

/// Columns that a CPU computes at a time, so that both sums stay in its caches and the pass over
/// them does not wait for memory: of 512×4096→11008 in bf16 it took 12 ms of 108 on two threads of
/// a Zen 5. Pieces are equal, since a product is chosen for its columns.
std::int64_t piece_of(const Problem& p) {
  constexpr std::int64_t kPieceBytes = std::int64_t{12} << 20, kLines = 64, kMaxPieces = 64;
  const std::int64_t columns = p.dims[kF];
  std::int64_t pieces = std::max<std::int64_t>(1, ceil_div(8 * p.dims[kT] * columns, kPieceBytes));
  while (pieces > 1 && pieces <= kMaxPieces && columns % (pieces * kLines) != 0) ++pieces;
  return pieces <= kMaxPieces ? columns / pieces : columns;
}

/// The products of `f` columns.
std::vector<Part> parts_of(const Problem& p, std::int64_t f) {
  const std::int64_t t = p.dims[kT], k = p.dims[kK];
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
std::size_t workspace_of(const Problem& p, std::int64_t columns) {
  return static_cast<std::size_t>(2 * sum_bytes(p.dims[kT], columns));
}

/// Runs both products for `count` columns from `first` on; returns where their sums are.
struct Sums {
  float* of[2];
};
Sums multiply(const Args& args, std::int64_t first, std::int64_t count, const Context& context,
              const Kernel& kernel, void* workspace) {
  Sums sums{};
  for (int part = 0; part < 2; ++part) {
    TensorView out = flat(args.tensors[kY]);
    out.dtype = DType::kF32;
    out.shape[1] = count;
    out.data = static_cast<char*>(workspace) + part * sum_bytes(out.shape[0], out.shape[1]);
    out.strides[0] = out.shape[1], out.strides[1] = 1;
    sums.of[part] = static_cast<float*>(out.data);
    const TensorView x = flat(args.tensors[kX]);
    TensorView weight = exchanged(args.tensors[part == 0 ? kGate : kUp]);
    weight.shape[1] = count;
    weight.data =
        static_cast<char*>(weight.data) + first * weight.strides[1] * size_of(weight.dtype);
    kernel.part(part)({x, weight, {"out_dtype", "f32"}}, {out}, context, workspace);
  }
  return sums;
}

// ---- CPU ----

struct CpuState {
  const GatedLinearCode* code;
  std::int64_t piece;
};

int run_cpu(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<CpuState>();
  const TensorView y = flat(args.tensors[kY]);
  for (std::int64_t first = 0; first < y.shape[1]; first += s.piece) {
    const Sums sums = multiply(args, first, s.piece, context, kernel, workspace);
    const GatedLinearFinish finish = {
        {{static_cast<char*>(y.data) + first * y.strides[1] * size_of(y.dtype), y.strides[0],
          y.strides[1], y.dtype},
         static_cast<Gate>(args.scalars[kActivation].i)},
        {{sums.of[0], s.piece, 1, DType::kF32}, {sums.of[1], s.piece, 1, DType::kF32}},
        s.piece};
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / s.piece);
    context.run(0, y.shape[0], grain,
                [&](std::int64_t begin, std::int64_t end) { s.code->finish(finish, begin, end); });
  }
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
  const std::int64_t piece = piece_of(q.problem);
  return make_kernel({run_cpu}, CpuState{&code_of(q.device), piece},
                     workspace_of(q.problem, piece));
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
    return workspace_of(q.problem, q.problem.dims[kF]);
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
    return 1e3 * (products + 2.0 * static_cast<double>(workspace_of(p, p.dims[kF])) / memory +
                  3 * launch_s(q.device) + 3e-6);
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const TensorView y = flat(args.tensors[kY]);
    const Sums sums = multiply(args, 0, y.shape[1], context, kernel, workspace);
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

/// The products at the rate of f32, or of the unit for bf16; or reading the weights; then the pass
/// over the sums.
double composed_ms(const Query& q) {
  const Problem& p = q.problem;
  const double threads = std::max<int>(1, p.threads);
  const Rates rates = unit_rates(q.device);
  const double sums =
      2.0 * static_cast<double>(workspace_of(p, p.dims[kF])) / rates.cache_bytes_per_s;
  const bool pairs = kernels::multiplies_pairs(q.device, p.tensors[kX].dtype);
  const double speed = pairs ? kernels::speed_of(kernels::Multiplier::kPairs) : 1;
  const double products = std::max(2 * multiply_adds(p) / (speed * rates.f32_flops),
                                   1.3 * bytes_of_weights(p) / rates.memory_bytes_per_s);
  return 1e3 * (products + sums) / threads + 0.02;
}

void append_composed(std::vector<Implementation>& to) {
  const char* const hash = source_hash<"ops/mlp/gated_linear/gated_linear_composed.cpp">();
  Implementation cpu;
  cpu.name = "composed";
  cpu.source_hash = hash;
  cpu.supports = supports;
  cpu.parts = [](const Query& q, const Config&) {
    return parts_of(q.problem, piece_of(q.problem));
  };
  cpu.estimate = [](const Query& q, const Config&) { return composed_ms(q); };
  cpu.prepare = prepare_cpu;
  to.push_back(cpu);
  Implementation gpu = kernels::make_cuda<Finish>("cuda_composed", hash);
  gpu.parts = [](const Query& q, const Config&) { return parts_of(q.problem, q.problem.dims[kF]); };
  to.push_back(gpu);
}

}  // namespace dlblas::mlp
