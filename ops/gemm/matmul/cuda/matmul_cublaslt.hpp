// cuBLASLt's product, as matmul and the batched products use it. A Problem describes one matrix, of
// which there are `count`. Read next: matmul_cublaslt.cpp.
#pragma once

#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {

/// An index into cuBLASLt's list.
struct CublasLtConfig {
  std::int32_t algo;
};
const ConfigTable<CublasLtConfig>& cublaslt_table();

/// How f32 is multiplied: as it is, or rounded to TF32, where the call allows that. Other types
/// have one way.
enum class LtCompute { kIeee, kTf32 };

/// The number of matrices, and the elements from one to the next.
struct LtBatch {
  std::int64_t count = 1, a = 0, b = 0, out = 0;
};

Support cublaslt_supports(const Problem& matrix, std::int64_t count, LtCompute compute);
void cublaslt_constrain(const Problem& matrix, std::int64_t count, LtCompute compute, Space& space);
double cublaslt_ms(const Problem& matrix, std::int64_t count, LtCompute compute,
                   const DeviceInfo& device, const Config& config);
/// `multiply` is the kernel's step, which calls cublaslt_multiply.
Kernel cublaslt_kernel(const char* op, const Problem& matrix, std::int64_t count, LtCompute compute,
                       const Config& config, StepFn multiply);
/// Returns 0, or a code that cuda::error_text describes.
int cublaslt_multiply(const Kernel& kernel, const MatmulGpuParams& params, const LtBatch& batch,
                      const Context& context, void* workspace);

}  // namespace dlblas::gemm
