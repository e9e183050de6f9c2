// What the GPU forms of gated_linear share on the host: traits and parameters from Problem and
// Args, and the reasons for which they refuse. Read next: gated_linear_mma_cuda.cpp.
#pragma once

#include <string>
#include <string_view>

#include "kernels/cuda_form.hpp"
#include "kernels/gemm_cuda.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_gpu_config.hpp"
#include "ops/mlp/gated_linear/gated_linear.hpp"

namespace dlblas::mlp {

/// What the Problem fixes.
struct GatedGpuTraits {
  GemmTraits gemm;
  GatedLinearTraits gated;
};
/// A call's parameters, as the kernels take them.
struct GatedGpuParams {
  GemmCall gemm;
  GatedLinearParams gated;
};

GatedGpuTraits gated_traits(const Problem& p, std::int32_t rows = 0, std::int32_t span = 0);
GatedGpuParams gated_params(const Args& args);
const TraitsTable<GatedLinearTraits>& gated_table();
/// An epilogue or a program of these traits, as C++ text.
std::string gated_text(std::string_view name, const GatedLinearTraits& traits);

/// f16 or bf16; x and both weights contiguous along K, rows 16-byte aligned.
Support supports_tensor_cores(const Problem& p);
/// Sizes that 32-bit counts of tiles hold.
Support supports_sizes(const Problem& p);
/// Under kDeterministic: does the tensor-core form take every batch of rows that lie like these?
bool tensor_cores_take_any_batch(const Problem& p);

inline constexpr int kNoMemory = 2;  // a step's code: CUDA_ERROR_OUT_OF_MEMORY
/// A matrix of `rows` whose columns are neighbours, copied on the stream to one with the smallest
/// pitch of whole 16 bytes: for views that a form cannot read. Null data without memory.
TensorView packed_copy(const TensorView& matrix, const Context& context);
/// Row by row, on the stream.
void copy_rows(const TensorView& from, const TensorView& to, void* stream);
/// Weights whose rows have other pitches are copied to plain ones, which is slow and right. 0, or
/// kNoMemory.
int align_weights(const Args& args, const Context& context, GemmCall& call);

}  // namespace dlblas::mlp
