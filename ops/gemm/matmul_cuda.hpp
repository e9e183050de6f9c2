// What the GPU forms of matmul share on the host: traits and parameters from Problem and Args, and
// the reasons for which all of them refuse.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_mma_cuda.cpp.
#pragma once

#include <string>

#include "core/implementation.hpp"
#include "ops/gemm/matmul.hpp"
#include "ops/gemm/matmul_gpu_config.hpp"

namespace dlblas::gemm {

/// `rows`: what MatmulTraits::rows says; 0 for the forms that take any number.
MatmulTraits matmul_traits(const Problem& problem, std::int32_t rows = 0);
MatmulGpuParams matmul_gpu_params(const Args& args);

/// `dlblas::gemm::<kernel><traits, configuration>`, a KernelSource's entry.
std::string matmul_entry(const char* kernel, const MatmulTraits& traits,
                         const std::string& configuration);

/// f16 or bf16, each operand contiguous in one dimension with 16-byte aligned rows: what the
/// tensor-core forms read.
Support supports_tensor_cores(const Problem& problem);
/// Under kDeterministic: do tensor cores take every batch of rows that lie like these? A row alone
/// may be aligned where several are not.
bool tensor_cores_take_any_batch(const Problem& p);
/// Sizes that 32-bit counts hold.
Support supports_sizes(const Problem& problem);
/// No more tiles than a grid has blocks.
Support supports_grid(const Problem& problem);

/// Bytes of all operands and of the result, each once.
double matmul_bytes(const Problem& problem);
/// What the memory of a device sustains, bytes a second; ranks candidates, no more.
double memory_rate(const DeviceInfo& device);

/// GPU forms, best guess first.
void append_rows_cuda(std::vector<Implementation>& to);
void append_mma_cuda(std::vector<Implementation>& to);
void append_fma_cuda(std::vector<Implementation>& to);
void append_cublaslt(std::vector<Implementation>& to);

}  // namespace dlblas::gemm
