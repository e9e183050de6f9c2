// The matmul of one to four rows on GPUs (decoding one sequence): b streams from memory once, each
// warp reads whole lines, and f32 multiply-adds keep up.
// In: a Problem of f16 or bf16 with at most four rows and b contiguous along K. Out: a Kernel of
// one step. Flow: call > validate > [select] > [compile] > [launch].
// Read next: device/gemm/gemv_mainloop.cuh, kernels/gemm_gemv.hpp.
#include "core/source_hash.hpp"
#include "kernels/gemm_gemv.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {
namespace {

kernels::GemvSizes sizes_of(const Problem& p) { return {p.dims[kM], p.dims[kN], p.dims[kK], 1}; }

struct Gemv : MatmulForm<Gemv, GemvConfig> {
  // The order of sums depends on the configuration.
  static constexpr bool kIsDeterministic = false;
  static constexpr const char* kKernel = "dlblas::gemm_gemv";
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_gemv.cuh";
  static constexpr const char* kConfigName = "dlblas::GemvConfig";
  static const ConfigTable<GemvConfig>& table() { return kernels::gemv_table(); }

  static MatmulTraits traits(const Query& q, const GemvConfig&) {
    return matmul_traits(q.problem, kernels::gemv_rows(q.problem.dims[kM]));
  }
  static void constrain(const Query& q, Space& space) {
    kernels::constrain_gemv(sizes_of(q.problem), space);
  }
  static GemvConfig preset(const Query& q) { return kernels::gemv_preset(sizes_of(q.problem)); }
  static double milliseconds(const Query& q, const GemvConfig& c) {
    return kernels::gemv_ms(sizes_of(q.problem), c, matmul_bytes(q.problem), q.device);
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.dims[kM] > kernels::kGemvRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(kA), kernels::kGemvRows,
                         p.dims[kM]);
    if (p.tensors[kA].layout == Layout::kTransposed)
      return Support::no("rows of {} are not contiguous", tensor(kA));
    if (p.tensors[kB].layout != Layout::kTransposed)
      return Support::no("{} is not contiguous along K", tensor(kB));
    if (p.dims[kK] % 8 != 0) return Support::no("K = {} is not a multiple of 8", p.dims[kK]);
    return supports_tensor_cores(p);
  }

  static MatmulGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const MatmulGpuParams p = matmul_gpu_params(args);
    how.grid.x = static_cast<unsigned>(ceil_div(p.gemm.n, s.config.block_columns()));
    how.block.x = static_cast<unsigned>(s.config.threads());
    return p;
  }
};

}  // namespace

void append_gemv_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Gemv>(
      "cuda_gemv", source_hash<"ops/gemm/matmul/cuda/matmul_gemv_cuda.cpp">()));
}

}  // namespace dlblas::gemm
