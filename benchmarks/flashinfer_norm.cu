// FlashInfer's header-only norms behind C entry points, for `dlblas bench gpu_norm` alone: no part of
// the library, built by hand with nvcc as benchmarks/README.md says.
// In: bf16, contiguous rows. Out: y, or x and residual in place. The code is a cudaError_t.
#include <cuda_bf16.h>

#include "flashinfer/norm.cuh"

using Element = __nv_bfloat16;

namespace {
Element* elements(void* memory) { return static_cast<Element*>(memory); }
}  // namespace

extern "C" {

int flashinfer_rms_norm(void* x, void* weight, void* y, unsigned rows, unsigned width, float eps,
                        int dependent, void* stream) {
  return flashinfer::norm::RMSNorm<Element>(elements(x), elements(weight), elements(y), rows, width,
                                            width, width, eps, dependent != 0,
                                            static_cast<cudaStream_t>(stream));
}

// x ← norm(x + residual), residual ← x + residual.
int flashinfer_fused_add_rms_norm(void* x, void* residual, void* weight, unsigned rows,
                                  unsigned width, float eps, int dependent, void* stream) {
  return flashinfer::norm::FusedAddRMSNorm<Element>(
      elements(x), elements(residual), elements(weight), rows, width, width, width, eps,
      dependent != 0, static_cast<cudaStream_t>(stream));
}

}  // extern "C"
