// What the CUDA implementations of rms_norm_backward share on the host. Both leave partial sums of
// dweight in f32 in the workspace, for rows that sizes, device and configuration alone divide; a
// last kernel, `fold`, adds them up in one order. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_cuda.cpp.
#pragma once

#include <string>

#include "core/integers.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_cuda_config.hpp"

namespace dlblas::norm::backward {

/// Contiguous weight, and rows at one stride each with contiguous elements.
Support supports_rows(const Problem& problem);
/// `full` is for the kernel that fills a row to say.
NormCudaTraits traits_of(const Problem& problem);
/// Where a call asks for the same bits in any batch: the problem whose kernel and configuration
/// serve this width, for it has a fixed number of rows.
Problem typical_rows(const Problem& problem);

/// What both kernels have in common.
template <typename Config>
struct BackwardForm : kernels::CudaForm<NormCudaTraits, Config> {
  static const TraitsTable<NormCudaTraits>& traits_table() { return norm_traits_table(); }
  static NormCudaTraits traits(const Query& q, const Config&) { return traits_of(q.problem); }
  static Problem typical(const Problem& problem) { return typical_rows(problem); }
};

BackwardCudaParams params_of(const Args& args, void* partials);
/// The last step: `groups` partial sums of each column; none where there are no rows.
int fold(const Args& args, const cuda::Function& entry, const void* partials, std::int64_t groups,
         const Context& context);
KernelSource fold_source(const Problem& problem);

/// Milliseconds of a H200 to read dy and x `passes` times and write dx once: only ratios choose.
double copy_ms(const Query& q, int passes);

/// True if cuda_registers serves this problem.
Support supports_registers(const Query& q);

/// rms_norm_backward_cuda.cpp and rms_norm_backward_columns_cuda.cpp.
Implementation cuda_registers();
Implementation cuda_columns();

}  // namespace dlblas::norm::backward
