// The oracle that rms_norm and add_rms_norm share: one row in f64, and the error it allows.
// In: a row's values, weight, eps. Out: the contract's result and the magnitude behind each
// element's bound. Read next: ops/norm/norm_ref.cpp, registry/operator.hpp (Bound).
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "core/tensor.hpp"
#include "registry/operator.hpp"

namespace dlblas::norm {

/// The scalars of a call and the tensors that shape every row.
struct RowSpec {
  const TensorView* weight;
  DType dtype;  // of x and y
  std::int64_t width;
  double eps, weight_offset;
  bool cast_before_weight;
};

/// y = h · rsqrt(mean(h²) + eps) · (weight + weight_offset) for one row h[width], in f64.
void reference_row(const RowSpec& spec, const double* h, double* value, double* magnitude);

/// The error allowed for y: rows of `width` elements of `dtype`.
Bound row_bound(DType dtype, std::int64_t width);

}  // namespace dlblas::norm
