// What the GPU forms of matmul share on the host: traits and parameters from Problem and Args, and
// the reasons for which all of them refuse.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_mma_cuda.cpp.
#pragma once

#include <vector>

#include "kernels/cuda_form.hpp"
#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {

/// `rows`, `span`: what MatmulTraits says of them.
MatmulTraits matmul_traits(const Problem& problem, std::int32_t rows = 0, std::int32_t span = 0);
/// MatmulTraits::span of the forms on tensor cores, which truncate where they add: f16, values in
/// [0, 1), the error of one chain is 0.09 roundings a term (H200; cuBLAS's chains are the same).
/// `chain`: terms of one f32 sum without spans.
std::int32_t tensor_core_span(const Problem& problem, std::int64_t chain, bool is_cheap);
MatmulGpuParams matmul_gpu_params(const Args& args);

/// The members of MatmulTraits, for the JIT.
const TraitsTable<MatmulTraits>& matmul_traits_table();
/// What the GPU forms have in common.
template <typename Config>
struct GemmForm : kernels::CudaForm<MatmulTraits, Config> {
  static const TraitsTable<MatmulTraits>& traits_table() { return matmul_traits_table(); }
};

/// f16 or bf16, each operand contiguous in one dimension with 16-byte aligned rows: what the
/// tensor-core forms read.
Support supports_tensor_cores(const Problem& problem);
/// Every element is aligned to its size.
Support supports_alignment(const Problem& problem);
/// Under kDeterministic: do tensor cores take every batch of rows that lie like these? A row alone
/// may be aligned where several are not.
bool tensor_cores_take_any_batch(const Problem& p);
/// Sizes that 32-bit counts hold.
Support supports_sizes(const Problem& problem);
/// No more tiles than a grid has blocks.
Support supports_grid(const Problem& problem);

/// Bytes of all operands and of the result, each once.
double matmul_bytes(const Problem& problem);

/// GPU forms, best guess first.
void append_rows_cuda(std::vector<Implementation>& to);
void append_mma_cuda(std::vector<Implementation>& to);
void append_fma_cuda(std::vector<Implementation>& to);
void append_cublaslt(std::vector<Implementation>& to);

}  // namespace dlblas::gemm
