// The gated_linear that takes everything on a GPU: IEEE f32, any strides, any alignment; one
// product after the other, the first one's sums in f32 in the workspace. In: any Problem. Out: a
// Kernel of two steps. Flow: call > validate > [select] > [compile] > [launch].
// Read next: device/gemm/fma_mainloop.cuh, gated_linear_epilogue.cuh.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/rates.hpp"
#include "generated/source_hashes.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

// As matmul's: as exact as cuBLAS.
std::int32_t span(const Problem& p) {
  constexpr std::int32_t kLong = 128;
  const bool few = !(p.flags & kDeterministic) && p.dims[kT] * p.dims[kF] <= 128 * 128;
  if (few) return kShortFmaSpan;
  return p.dims[kK] > kLong ? kLong : 0;
}

struct Fma : kernels::CudaForm<GatedGpuTraits, GemmFmaConfig> {
  static const ConfigTable<GemmFmaConfig>& table() {
    using C = GemmFmaConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::block_m>("block_m", {32, 64, 128}), field<&C::block_n>("block_n", {32, 64, 128}),
        field<&C::block_k>("block_k", {16}),          field<&C::thread_m>("thread_m", {4, 8}),
        field<&C::thread_n>("thread_n", {4, 8}),
    };
    return *t;
  }

  static GatedGpuTraits traits(const Query& q, const GemmFmaConfig&) {
    return gated_traits(q.problem, 0, span(q.problem));
  }
  static Support supports(const Query& q) { return supports_sizes(q.problem); }
  static Support same_bits(const Query& q) {
    if (!tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no(
        "adds up in another order than cuda_mma, which takes any batch of such rows");
  }

  static void constrain(const Query& q, Space& space) {
    const std::int64_t m = q.problem.dims[kT], n = q.problem.dims[kF];
    space.require(table(), "block_m_distinct", {"block_m"},
                  [m](const GemmFmaConfig& c) { return c.block_m == 32 || c.block_m / 2 < m; });
    space.require(table(), "block_n_distinct", {"block_n"},
                  [n](const GemmFmaConfig& c) { return c.block_n == 32 || c.block_n / 2 < n; });
    space.require(table(), "threads_divide_tiles", [](const GemmFmaConfig& c) { return valid(c); });
    space.require(table(), "shared_memory_fits", {"block_m", "block_n", "block_k"},
                  [most = q.device.shared_bytes_per_block, length = span(q.problem)](
                      const GemmFmaConfig& c) { return c.shared_bytes(length) <= most; });
  }

  static double milliseconds(const Query& q, const GemmFmaConfig& c) {
    const Problem& p = q.problem;
    const double reuse = 1.0 * c.thread_m * c.thread_n / (c.thread_m + c.thread_n);
    const double rate = unit_rates(q.device).f32_flops / 2 * std::min(1.0, 0.37 + 0.1 * reuse);
    const double blocks = static_cast<double>(ceil_div(p.dims[kT], c.block_m)) *
                          static_cast<double>(ceil_div(p.dims[kF], c.block_n));
    const int fitting = std::max(1, 512 / c.threads());
    const double waves = std::ceil(blocks / (q.device.units * fitting)) * fitting;
    const double depth = static_cast<double>(p.dims[kK]) + c.block_k;
    const double alone = depth / c.block_k * 1.5e-6;
    const double products = waves * depth * c.block_m * c.block_n / rate;
    return 1e3 *
           (2 * std::max(products, alone) + bytes_of(p) / memory_bytes_per_s(q.device) + 8e-6);
  }
  static GemmFmaConfig preset(const Query& q) {
    constexpr GemmFmaConfig kChoices[] = {{128, 128, 16, 8, 8}, {128, 64, 16, 8, 4},
                                          {64, 64, 16, 4, 4},   {32, 64, 16, 4, 4},
                                          {64, 32, 16, 4, 4},   {32, 32, 16, 4, 4}};
    Space space(table());
    constrain(q, space);
    GemmFmaConfig best = *std::rbegin(kChoices);  // of a device that holds none
    double best_ms = std::numeric_limits<double>::infinity();
    for (const GemmFmaConfig& c : kChoices) {
      if (!space.broken_constraint(table().to_config(c)).empty()) continue;
      const double ms = milliseconds(q, c);
      if (ms < best_ms) best = c, best_ms = ms;
    }
    return best;
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return static_cast<std::size_t>(q.problem.dims[kT] * q.problem.dims[kF]) * sizeof(float);
  }
  /// The gate's weight may lie otherwise than the other one.
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    GemmTraits second = s.traits.gemm;
    second.b_by_depth = q.problem.tensors[kUp].layout != Layout::kTransposed;
    const std::string config =
        table().literal(table().to_config(s.config), "dlblas::GemmFmaConfig");
    const char* const include = "ops/mlp/gated_linear/cuda/gated_linear_fma.cuh";
    return {{include,
             kernels::gemm_entry("dlblas::gemm_fma", s.traits.gemm, config,
                                 gated_text("FirstEpilogue", s.traits.gated)),
             s.shared_bytes},
            {include,
             kernels::gemm_entry("dlblas::gemm_fma", second, config,
                                 gated_text("SecondEpilogue", s.traits.gated)),
             s.shared_bytes}};
  }

  template <int kPart>
  static int multiply(const Args& args, const Context& context, const Kernel& kernel,
                      void* workspace) {
    const State& s = kernel.load<State>();
    const GemmFmaConfig& c = s.config;
    GatedGpuParams p = gated_params(args);
    p.gated.sums = static_cast<float*>(workspace);
    if constexpr (kPart == 1) {
      const TensorView up = flat(args.tensors[kUp]);
      p.gemm.b[0] = up.data;
      p.gemm.b_row = p.gemm.k == 1 ? 0 : up.strides[1];
      p.gemm.b_col = p.gemm.n == 1 ? 0 : up.strides[0];
    }
    p.gemm.b[1] = nullptr;
    cuda::Launch how;
    how.grid.x =
        static_cast<unsigned>(ceil_div(p.gemm.m, c.block_m) * ceil_div(p.gemm.n, c.block_n));
    how.block.x = static_cast<unsigned>(c.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    return cuda::launch(*kernel.entries[kPart], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply<0>, multiply<1>}; }
};

}  // namespace

void append_fma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Fma>(
      "cuda_fma", source_hash("ops/mlp/gated_linear/cuda/gated_linear_fma_cuda.cpp")));
}

}  // namespace dlblas::mlp
