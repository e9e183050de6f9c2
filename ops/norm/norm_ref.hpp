// The oracle that the norm operators share: one row in f64, and the error it allows.
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

// ---- what a bound is made of, for every operator of the family ----

/// The most roundings that a term of a sum over `width` elements passes through.
std::int64_t sum_chain(std::int64_t width);
/// The distance between neighbours of a dtype around v: how far a value near a tie may be rounded
/// apart.
double spacing(DType dtype, double v);
/// True when a kernel whose value is off by `error` may round to another neighbour than v does.
bool may_flip(DType dtype, double v, double error);
/// weight_offset, which kernels hold in f32: beyond its range it is infinite, or 0.
double weight_offset_of(const Args& args);
/// What a store makes of values beyond the dtype's range.
double overflowed(DType dtype, double v);

}  // namespace dlblas::norm
