// Matrix products by oneDNN: what the rivals of matmul, of its batched and fused forms, and of the
// scaled products share. In: the matrices of a call, or of a problem. Out: whether oneDNN has fast
// code for them; the product. A primitive is built for one exact shape: those of the last shapes
// are cached for the process. oneDNN takes plain matrices with positive strides; any other operand
// is copied for the call, which is slow but correct. Read next: cpu/onednn.hpp, onednn_product.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/implementation.hpp"
#include "cpu/gemm/job.hpp"

namespace dlblas {

/// One step of what follows the sums (oneDNN's "post-operation").
struct OneDnnPost {
  enum Kind : std::uint8_t {
    kNone,
    kEltwise,   // `function` (OneDnn::Eltwise) of it
    kMultiply,  // by `with`
    kAdd,       // `with`
    kAddOut,    // what the result holds
  };
  Kind kind = kNone;
  int function = 0;
  float alpha = 0;
  /// A value per element, row or column: a stride of 0 says which.
  GemmMatrix with = {nullptr, 0, 0, DType::kAbsent};
};

/// out = after(a · b + bias), of `batch` matrices. The data of an absent bias is null, and its type
/// kAbsent.
struct OneDnnProduct {
  enum Operand : int { kA, kB, kBias, kOut, kOperands };
  static constexpr int kMaxPosts = 5;

  std::int64_t m = 0, n = 0, k = 0;
  GemmMatrix operands[kOperands] = {};
  OneDnnPost after[kMaxPosts] = {};  // in order; those behind the first kNone do not count
  std::int64_t batch = 1;
  /// Elements from a matrix to the next; 0: one serves all. Of a bias 0.
  std::int64_t apart[kOperands] = {};

  std::int64_t rows(int operand) const { return operand == kBias ? 1 : operand == kB ? k : m; }
  std::int64_t columns(int operand) const { return operand == kA ? k : n; }
  /// Adds a step behind the others.
  void then(const OneDnnPost& post) {
    int i = 0;
    while (after[i].kind != OneDnnPost::kNone) ++i;
    after[i] = post;
  }
};

/// Sets an operand to what a tensor of these traits typically is: no gaps, no data.
void set_typical(OneDnnProduct& product, int operand, const TensorTraits& traits);
/// Why a problem has no product that oneDNN takes in place: no library, a matrix (of `tensors`)
/// without a contiguous dimension.
Support onednn_takes(const Problem& problem, std::initializer_list<int> tensors);
/// Why sums of so many products with an `a` would be too inexact.
Support onednn_adds(std::int64_t k, const TensorTraits& a);
/// Why there is no fast code for matrices of these strides and types; data is not looked at.
Support onednn_supports(const OneDnnProduct& product, int threads);

/// Runs it with the context's threads and workspace. 0, or the code of a failed step.
int onednn_multiply(OneDnnProduct product, const Context& context);

}  // namespace dlblas
