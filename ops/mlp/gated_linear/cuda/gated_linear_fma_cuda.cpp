// The general gated_linear on GPUs: IEEE f32, any strides, any alignment; one product after the
// other, with the first one's f32 sums in the workspace. In: any Problem. Out: a Kernel of two
// steps. Flow: call > validate > [select] > [compile] > [launch].
// Read next: device/gemm/fma_mainloop.cuh, gated_linear_epilogue.cuh.
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_fma.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

kernels::GemmSize size_of_product(const Problem& p) { return {p.dims[kT], p.dims[kF], p.dims[kK]}; }
std::int32_t span(const Problem& p) { return kernels::gemm_fma_span(p, size_of_product(p)); }

struct Fma : kernels::CudaForm<GatedGpuTraits, GemmFmaConfig> {
  static constexpr bool kDependent = true;
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
    kernels::constrain_gemm_fma(q, size_of_product(q.problem), table(), space);
  }
  static double milliseconds(const Query& q, const GemmFmaConfig& c) {
    const double product = kernels::gemm_fma_seconds(q.device, size_of_product(q.problem), c);
    return 1e3 * (2 * product + bytes_of(q.problem) / memory_bytes_per_s(q.device) + 8e-6);
  }
  static GemmFmaConfig preset(const Query& q) {
    return kernels::gemm_fma_preset(q, size_of_product(q.problem), table(), milliseconds);
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return static_cast<std::size_t>(q.problem.dims[kT] * q.problem.dims[kF]) * sizeof(float);
  }
  /// The two weights may have different layouts.
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
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[kPart], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply<0>, multiply<1>}; }
};

}  // namespace

void append_fma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Fma>(
      "cuda_fma", source_hash<"ops/mlp/gated_linear/cuda/gated_linear_fma_cuda.cpp">()));
}

}  // namespace dlblas::mlp
