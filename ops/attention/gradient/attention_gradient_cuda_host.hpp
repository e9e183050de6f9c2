// What the host sides of attention's gradient on NVIDIA GPUs share.
// Read next: attention_gradient_cuda.cpp, attention_gradient_wgmma_cuda.cpp.
#pragma once

#include "ops/attention/cuda/attention_cuda_host.hpp"
#include "ops/attention/gradient/attention_gradient_config.hpp"

namespace dlblas::attention {

/// Traits of the forward operator's tensors and the gradients. Above 128 columns, widths are
/// multiples of 64: two halves of multiples of 32.
AttentionTraits gradient_traits(const Query& q);
/// All parameters but `tiles`; `delta` is in the workspace.
AttentionGradientParams gradient_params(const AttentionGradientOp& op, const Args& args,
                                        float* delta);

/// cuda_mma's kernels with the default configuration, for calls that another implementation's own
/// kernels cannot serve.
struct GradientMma {
  static constexpr int kSteps = 3;
  static std::vector<KernelSource> sources(const AttentionTraits& traits);
  /// Launches `entry`, the kernel of that step of the sources; the workspace begins with delta,
  /// contiguous.
  static int launch(int step, const AttentionGradientOp& op, const AttentionTraits& traits,
                    const cuda::Function& entry, const Args& args, const Context& context,
                    void* workspace);
};

Implementation attention_gradient_wgmma(const AttentionGradientOp& op);

}  // namespace dlblas::attention
