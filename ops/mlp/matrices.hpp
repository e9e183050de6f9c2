// What the host sides of this family do with tensors: leading dimensions as rows of a matrix.
// Read next: gated_linear/gated_linear.cpp.
#pragma once

#include <initializer_list>

#include "core/tensor.hpp"

namespace dlblas::mlp {

/// All leading dimensions are rows, at one stride. A dimension of size 1 has the stride 1 along its
/// own, so that kernels see it as contiguous.
TensorView flat(const TensorView& t);

/// Throws where the leading dimensions of one of these do not lie at one stride.
void check_rows(const Args& args, std::initializer_list<int> tensors);

}  // namespace dlblas::mlp
