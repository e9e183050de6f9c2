// What the CUDA implementations of rms_norm_backward share on the host. Both leave partial sums of
// dweight in f32 in the workspace; only sizes, device and configuration decide how rows are
// divided. A last kernel, `fold`, adds them in a fixed order. Read next:
// ops/norm/rms_norm_backward/rms_norm_backward_cuda.cpp.
#pragma once

#include <string>

#include "core/integers.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward.hpp"
#include "ops/norm/rms_norm_backward/rms_norm_backward_cuda_config.hpp"

namespace dlblas::norm::backward {

/// Requires a contiguous weight, and rows of contiguous elements at one stride per tensor.
Support supports_rows(const Problem& problem);
/// Leaves `full` to the kernel that holds a whole row.
NormCudaTraits traits_of(const Problem& problem);
/// For calls that require the same bits in any batch: a problem with a fixed number of rows, whose
/// kernel and configuration serve this width.
Problem typical_rows(const Problem& problem);

/// Common to both kernels.
template <typename Config>
struct BackwardForm : kernels::CudaForm<NormCudaTraits, Config> {
  static const TraitsTable<NormCudaTraits>& traits_table() { return norm_traits_table(); }
  static NormCudaTraits traits(const Query& q, const Config&) { return traits_of(q.problem); }
  static Problem typical(const Problem& problem) { return typical_rows(problem); }
};

BackwardCudaParams params_of(const Args& args, void* partials);
/// The last step: adds `groups` partial sums per column; there are none without rows.
int fold(const Args& args, const cuda::Function& entry, const void* partials, std::int64_t groups,
         const Context& context);
KernelSource fold_source(const Problem& problem);

/// Milliseconds to read dy and x `passes` times and write dx once, at a copy rate measured on an
/// H200: only ratios matter.
double copy_ms(const Query& q, int passes);

/// True if cuda_registers serves this problem.
Support supports_registers(const Query& q);

/// Defined in rms_norm_backward_cuda.cpp and rms_norm_backward_columns_cuda.cpp.
Implementation cuda_registers();
Implementation cuda_columns();

}  // namespace dlblas::norm::backward
