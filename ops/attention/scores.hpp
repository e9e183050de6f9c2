// Checks of the scalars that scale and limit attention's scores. In: an operator's name and its
// scalars. Out: nothing, or Error(kArgument).
// Used by: attention_oracle.cpp, paged_attention_lse, mla_decode_lse.
#pragma once

#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace dlblas::attention {

[[noreturn]] inline void refuse_scalar(const char* op, const char* argument, const char* expected,
                                       double got) {
  throw Error(ErrorKind::kArgument,
              text(op, ": ", argument, " is out of range; expected ", expected, ", got ", got),
              {op, argument, expected, text(got)});
}

/// Whether f32 holds a number, in which kernels compute.
inline bool is_finite_in_f32(double number) {
  return std::abs(number) <= std::numeric_limits<float>::max();
}

inline void check_scale(const char* op, double scale) {
  if (!is_finite_in_f32(scale)) refuse_scalar(op, "scale", "a finite number of f32", scale);
}

/// Kernels would make NaN of infinity · tanh(s / infinity).
inline void check_softcap(const char* op, double cap) {
  if (!(cap >= 0 && is_finite_in_f32(cap)))
    refuse_scalar(op, "softcap", "0 or more, and finite in f32", cap);
}

inline void check_window(const char* op, std::int64_t window) {
  if (window < -1) refuse_scalar(op, "window", "-1, or 0 and more", static_cast<double>(window));
}

}  // namespace dlblas::attention
