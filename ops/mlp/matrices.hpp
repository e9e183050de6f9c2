// What the host sides of this family do with tensors: leading dimensions as rows of a matrix.
// Read next: gated_linear/gated_linear.cpp.
#pragma once

#include <initializer_list>

#include "core/problem.hpp"
#include "core/tensor.hpp"

namespace dlblas::mlp {

/// All leading dimensions become rows, at one stride. A single row gets its width as the stride, a
/// single column gets 1, so that kernels see them as contiguous.
TensorView flat(const TensorView& t);

/// Throws if the leading dimensions of one of these tensors do not flatten to one stride.
void check_rows(const Args& args, std::initializer_list<int> tensors);

/// A weight [N, K] as the b [K, N] of a product: for a Problem, and for a call.
TensorTraits exchanged(TensorTraits t);
TensorView exchanged(const TensorView& t);
/// True if it is contiguous in one dimension, so that `exchanged` knows its layout.
bool lies_plainly(Layout layout);

}  // namespace dlblas::mlp
