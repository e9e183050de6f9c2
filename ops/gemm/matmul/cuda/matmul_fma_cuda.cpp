// The general matmul on GPUs: IEEE f32, any strides, any alignment.
// In: any Problem. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/fma_mainloop.cuh, matmul_epilogue.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_fma.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

kernels::GemmSize size_of_product(const Problem& p) { return {p.dims[kM], p.dims[kN], p.dims[kK]}; }
std::int32_t span(const Problem& p) { return kernels::gemm_fma_span(p, size_of_product(p)); }

struct Fma : MatmulForm<Fma, GemmFmaConfig> {
  static constexpr const char* kKernel = "dlblas::gemm_fma";
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_fma.cuh";
  static constexpr const char* kConfigName = "dlblas::GemmFmaConfig";
  static const ConfigTable<GemmFmaConfig>& table() {
    using C = GemmFmaConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::block_m>("block_m", {32, 64, 128}), field<&C::block_n>("block_n", {32, 64, 128}),
        field<&C::block_k>("block_k", {8, 16, 32}),   field<&C::thread_m>("thread_m", {4, 8}),
        field<&C::thread_n>("thread_n", {4, 8}),
    };
    return *t;
  }

  static MatmulTraits traits(const Query& q, const GemmFmaConfig&) {
    return matmul_traits(q.problem, 0, span(q.problem));
  }

  static Support supports(const Query& q) { return supports_grid(q.problem); }
  static Support same_bits(const Query& q) {
    if (!tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no(
        "adds up in another order than cuda_mma, which takes any batch of such rows");
  }

  static void constrain(const Query& q, Space& space) {
    kernels::constrain_gemm_fma(q, size_of_product(q.problem), table(), space);
  }
  static double milliseconds(const Query& q, const GemmFmaConfig& c) {
    const double bytes = matmul_bytes(q.problem);
    return 1e3 * (std::max(kernels::gemm_fma_seconds(q.device, size_of_product(q.problem), c),
                           bytes / memory_bytes_per_s(q.device)) +
                  4e-6);
  }
  static GemmFmaConfig preset(const Query& q) {
    return kernels::gemm_fma_preset(q, size_of_product(q.problem), table(), milliseconds);
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.gemm.span);
  }
  static MatmulGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const GemmFmaConfig& c = s.config;
    const MatmulGpuParams p = matmul_gpu_params(args);
    how.grid.x =
        static_cast<unsigned>(ceil_div(p.gemm.m, c.block_m) * ceil_div(p.gemm.n, c.block_n));
    how.block.x = static_cast<unsigned>(c.threads());
    return p;
  }
};

}  // namespace

void append_fma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Fma>("cuda_fma",
                                       source_hash<"ops/gemm/matmul/cuda/matmul_fma_cuda.cpp">()));
}

}  // namespace dlblas::gemm
