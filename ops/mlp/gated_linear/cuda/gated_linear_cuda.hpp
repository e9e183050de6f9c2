// What the GPU forms of gated_linear share on the host: traits and parameters from Problem and
// Args, and the reasons why they refuse a Problem. Read next: gated_linear_mma_cuda.cpp.
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
/// The kernels' call parameters.
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
/// 32-bit counts can hold the sizes and the tiles.
Support supports_sizes(const Problem& p);
/// Under kDeterministic: whether the tensor-core form takes any number of rows in this layout.
bool tensor_cores_take_any_batch(const Problem& p);

inline constexpr int kNoMemory = 2;  // a step's code: CUDA_ERROR_OUT_OF_MEMORY
/// Copies a matrix with contiguous rows, on the stream, to one with the smallest pitch of whole 16
/// bytes: for views that a form cannot read. Null data: out of memory.
TensorView packed_copy(const TensorView& matrix, const Context& context);
/// Copies row by row, on the stream.
void copy_rows(const TensorView& from, const TensorView& to, void* stream);
/// Copies weights whose row pitches differ to plain ones, which is slow but correct. Returns 0 or
/// kNoMemory.
int align_weights(const Args& args, const Context& context, GemmCall& call);

}  // namespace dlblas::mlp
