// The gated_linear of one to four rows on GPUs (decoding one sequence): both weights stream from
// memory once, and each warp reads whole lines. In: a Problem of f16 or bf16. Out: a Kernel of one
// step.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: device/gemm/gemv_mainloop.cuh, kernels/gemm_gemv.hpp.
#include "core/source_hash.hpp"
#include "kernels/gemm_gemv.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"

namespace dlblas::mlp {
namespace {

kernels::GemvSizes sizes_of(const Problem& p) {
  return {p.dims[kT], 2 * p.dims[kF], p.dims[kK], 2};
}

/// `columns` counts the columns of both weights, which alternate.
struct Gemv : kernels::CudaForm<GatedGpuTraits, GemvConfig> {
  static constexpr bool kDependent = true;
  static constexpr bool kIsDeterministic = false;  // the order of sums depends on the configuration
  static const ConfigTable<GemvConfig>& table() { return kernels::gemv_table(); }

  static GatedGpuTraits traits(const Query& q, const GemvConfig&) {
    return gated_traits(q.problem, kernels::gemv_rows(q.problem.dims[kT]));
  }
  static void constrain(const Query& q, Space& space) {
    kernels::constrain_gemv(sizes_of(q.problem), space);
  }
  static GemvConfig preset(const Query& q) { return kernels::gemv_preset(sizes_of(q.problem)); }
  static double milliseconds(const Query& q, const GemvConfig& c) {
    return kernels::gemv_ms(sizes_of(q.problem), c, bytes_of(q.problem), q.device);
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.dims[kT] > kernels::kGemvRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(kX), kernels::kGemvRows,
                         p.dims[kT]);
    if (p.dims[kK] % 8 != 0) return Support::no("K = {} is not a multiple of 8", p.dims[kK]);
    return supports_tensor_cores(p);
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/mlp/gated_linear/cuda/gated_linear_gemv.cuh",
             kernels::gemm_entry("dlblas::gemm_gemv", s.traits.gemm,
                                 table().literal(table().to_config(s.config), "dlblas::GemvConfig"),
                                 gated_text("GatedEpilogue", s.traits.gated)),
             0}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    GatedGpuParams p = gated_params(args);
    if (const int code = align_weights(args, context, p.gemm)) return code;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(2 * p.gemm.n, s.config.block_columns()));
    how.block.x = static_cast<unsigned>(s.config.threads());
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

}  // namespace

void append_gemv_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Gemv>(
      "cuda_gemv", source_hash<"ops/mlp/gated_linear/cuda/gated_linear_gemv_cuda.cpp">()));
}

}  // namespace dlblas::mlp
