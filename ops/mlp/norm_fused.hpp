// Operators that normalise rows on their way into a product: one kernel, no norm in front. In:
// which tensors and letters of an operator these are. Out: its implementations cuda_gemv and
// cuda_wgmma. Read next: norm_fused.cpp, device/gemm/wgmma_norm.cuh, device/gemm/gemv_norm.cuh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/implementation.hpp"
#include "kernels/cuda_form.hpp"
#include "kernels/gemm_fma.hpp"
#include "ops/mlp/norm_config.hpp"

namespace dlblas::mlp {

/// An operator, as the forms see it: places of tensors, letters and scalars in its schema.
struct NormProduct {
  int x, gain, weights[2], parts, y;
  int t, k, n;
  int eps;        // among a call's scalars
  bool is_gated;  // the Problem's first scalar is the gate
};

/// What a Problem fixes.
struct NormedForm {
  GemmTraits gemm;
  NormedTraits normed;
};
NormedForm normed_form(const Query& q, std::int32_t rows, std::int32_t span);
/// A program or an epilogue, as C++ text: NormedProgram, NormedGatedEpilogue …
std::string normed_text(const NormProduct& op, std::string_view kind, const NormedTraits& traits);
/// The product's size, with the columns of all weights; bytes of all tensors, each once.
kernels::GemmSize normed_size(const Query& q);
double normed_product_bytes(const Query& q);
/// f16 or bf16; x and weights contiguous along K, rows of 16-byte alignment; so is the gain.
Support normed_operands_fit(const Query& q);

/// Milliseconds of the two-step form: the product's, by the models of its own forms, and the
/// norm's.
double composed_milliseconds(const Query& q, const NormProduct& op);

/// `op` lives as long as the process.
void append_norm_gemv(std::vector<Implementation>& to, const NormProduct& op,
                      const char* source_hash);
void append_norm_wgmma(std::vector<Implementation>& to, const NormProduct& op,
                       const char* source_hash);

}  // namespace dlblas::mlp
