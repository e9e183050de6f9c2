// The oracle that the norm operators share: one row in f64, and the error it allows.
// In: a row's values, weight, eps. Out: the contract's result and the magnitude behind each
// element's bound. Read next: ops/norm/norm_ref.cpp, registry/operator.hpp (Bound).
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "core/tensor.hpp"
#include "registry/operator.hpp"
#include "device/oracle/sum_error.hpp"

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

/// The error allowed for y of `dtype`, relative to the magnitudes of reference_row.
Bound row_bound(DType dtype);

// ---- what a bound is made of, for every operator of the family ----

/// The longest f32 chain in a sum over `width` elements.
double sum_chain(std::int64_t width);

/// Σh² of a row, and how alike the squares are.
struct RowSquares {
  double sum = 0, fourth = 0, nonzero = 0;
  void add(double h);
  /// Roundings, as a factor of kRounding, of the root that come from the sum.
  double root_error(std::int64_t width) const;
};
/// Roundings between the sum and y.
inline constexpr double kNormRoundings = 6;
/// The distance between neighbours of a dtype around v: how far a value near a tie may be rounded
/// apart.
double spacing(DType dtype, double v);
/// True when a kernel whose value is off by `error` may round to another neighbour than v does.
bool may_flip(DType dtype, double v, double error);
/// weight_offset, which kernels hold in f32: beyond its range it is infinite, or 0.
double weight_offset_of(const Args& args);
/// What a store makes of values beyond the dtype's range: infinite where even the smallest that the
/// bound allows rounds to that; else v itself, which a right result may miss on either side.
double overflowed(DType dtype, double v, double magnitude);

}  // namespace dlblas::norm
