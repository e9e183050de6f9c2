// For oracles of formulas that round intermediate values, as eager PyTorch does in 16 bits: near a
// tie, a kernel may round to the other neighbour, and the result then differs by a step of the
// dtype. Shared by several families. Read next: ops/norm/norm_ref.hpp, ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/common/oracle_text.hpp"

namespace dlblas::norm {

/// The distance between neighbouring values of a dtype around v: how far a value near a tie may
/// round from the reference's.
inline double spacing(DType dtype, double v) {
  const FloatTraits traits = float_traits(dtype);
  return std::max(std::exp2(std::floor(std::log2(std::abs(v)))) * traits.eps, traits.tiny);
}

/// True if a kernel whose value has an error of `error` may round to another neighbour than v.
inline bool may_flip(DType dtype, double v, double error) {
  return round_to(dtype, v - error) != round_to(dtype, v + error);
}

/// A value, and the error a kernel's may have, in units of 2^-24.
struct OffValue {
  double value, off;
};

/// v rounded to `dtype` by a kernel that has v to within `off` roundings of f32. If `off` is 0,
/// ties round alike too. An error of more than a step (all of v, where an exponential overflows)
/// remains after rounding.
inline OffValue rounded_between(DType dtype, double v, double off) {
  const double step = may_flip(dtype, v, off * kRounding) ? spacing(dtype, v) / kRounding : 0;
  return {round_to(dtype, v), step > 0 && off > step ? off + step : step};
}

/// a · b of elements, rounded by a kernel that multiplies in f32, which is exact for 16-bit
/// elements.
inline OffValue rounded_product(DType dtype, double a, double b) {
  const double v = a * b;
  return rounded_between(dtype, v,
                         round_to(DType::kF32, v) == v ? 0 : std::max(std::abs(v), 0x1p-126));
}

}  // namespace dlblas::norm
