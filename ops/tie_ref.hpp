// Oracles of formulas that round in between, as eager PyTorch does in 16 bits: a kernel's value
// near a tie may be rounded to the other neighbour, and what follows is a step of the dtype off.
// What families share. Read next: ops/norm/norm_ref.hpp, ops/rope/rotation_ref.hpp.
#pragma once

#include "ops/oracle_text.hpp"

namespace dlblas::norm {

/// The distance between neighbours of a dtype around v: how far a value near a tie may be rounded
/// apart.
inline double spacing(DType dtype, double v) {
  const FloatTraits traits = float_traits(dtype);
  return std::max(std::exp2(std::floor(std::log2(std::abs(v)))) * traits.eps, traits.tiny);
}

/// True when a kernel whose value is off by `error` may round to another neighbour than v does.
inline bool may_flip(DType dtype, double v, double error) {
  return round_to(dtype, v - error) != round_to(dtype, v + error);
}

/// A value, and what a kernel's may be off by, in units of 2^-24.
struct OffValue {
  double value, off;
};

/// v rounded to `dtype` by a kernel that has it to within `off` roundings of f32: where it is off
/// by nothing, ties are rounded alike, too. Where it is off by more than a step, as by all of v
/// where an exponential overflows, it is still.
inline OffValue rounded_between(DType dtype, double v, double off) {
  const double step = may_flip(dtype, v, off * kRounding) ? spacing(dtype, v) / kRounding : 0;
  return {round_to(dtype, v), step > 0 && off > step ? off + step : step};
}

/// a · b of elements, rounded by a kernel that multiplies in f32: exact there for 16-bit elements.
inline OffValue rounded_product(DType dtype, double a, double b) {
  const double v = a * b;
  return rounded_between(dtype, v,
                         round_to(DType::kF32, v) == v ? 0 : std::max(std::abs(v), 0x1p-126));
}

}  // namespace dlblas::norm
