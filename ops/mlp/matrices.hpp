// What the host sides of this family do with tensors: leading dimensions as rows of a matrix.
// Read next: gated_linear/gated_linear.cpp.
#pragma once

#include <initializer_list>

#include "core/problem.hpp"
#include "core/tensor.hpp"

namespace dlblas::mlp {

/// All leading dimensions are rows, at one stride. A dimension of size 1 has the stride 1 along its
/// own, so that kernels see it as contiguous.
TensorView flat(const TensorView& t);

/// Throws where the leading dimensions of one of these do not lie at one stride.
void check_rows(const Args& args, std::initializer_list<int> tensors);

/// A weight [N, K] as the b [K, N] of a product: of a problem, and of a call.
TensorTraits exchanged(TensorTraits t);
TensorView exchanged(const TensorView& t);
/// True if it is contiguous in a dimension, so that `exchanged` knows how it lies.
bool lies_plainly(Layout layout);

}  // namespace dlblas::mlp
