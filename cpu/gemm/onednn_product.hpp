// A matrix product by oneDNN: what the rivals of matmul and of the scaled products share.
// In: the matrices of a call, or of a problem. Out: whether oneDNN has fast code for them; the
// product. A primitive is built for one exact shape: those of the last shapes are cached for the
// process. oneDNN takes plain matrices with positive strides; any other operand is copied for the
// call, which is slow but correct. Read next: cpu/onednn.hpp, onednn_product.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/implementation.hpp"
#include "cpu/gemm/job.hpp"

namespace dlblas {

/// out = f(a · b + bias). The data of an absent bias is null, and its type kAbsent.
struct OneDnnProduct {
  enum Operand : int { kA, kB, kBias, kOut, kOperands };

  std::int64_t m = 0, n = 0, k = 0;
  GemmMatrix operands[kOperands] = {};
  int eltwise = 0;  // OneDnn::Eltwise, 0: none
  float alpha = 0;

  std::int64_t rows(int operand) const { return operand == kBias ? 1 : operand == kB ? k : m; }
  std::int64_t columns(int operand) const { return operand == kA ? k : n; }
};

/// Sets an operand to what a tensor of these traits typically is: no gaps, no data.
void set_typical(OneDnnProduct& product, int operand, const TensorTraits& traits);
/// Why a problem has no product that oneDNN takes in place: no library, a matrix (of `tensors`)
/// without a contiguous dimension.
Support onednn_takes(const Problem& problem, std::initializer_list<int> tensors);
/// Why there is no fast code for matrices of these strides and types; data is not looked at.
Support onednn_supports(const OneDnnProduct& product, int threads);

/// Runs it with the context's threads and workspace. 0, or the code of a failed step.
int onednn_multiply(OneDnnProduct product, const Context& context);

}  // namespace dlblas
