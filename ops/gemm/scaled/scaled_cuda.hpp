// What the GPU forms of the scaled products share on the host. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: scaled_mma_cuda.cpp, scaled_wgmma_cuda.cpp.
#pragma once

#include "kernels/cuda_form.hpp"
#include "ops/gemm/scaled/scaled.hpp"
#include "ops/gemm/scaled/scaled_gpu_config.hpp"

namespace dlblas::gemm::scaled {

/// What a form's Implementation::user points to.
inline constexpr Scales kScalesOf[] = {Scales::kChannel, Scales::kBlock};
inline Scales scales_of(const void* user) { return *static_cast<const Scales*>(user); }

ScaledTraits scaled_traits(const Problem& problem, Scales scales);
ScaledParams scaled_params(const Args& args, Scales scales);
const TraitsTable<ScaledTraits>& scaled_traits_table();

}  // namespace dlblas::gemm::scaled
