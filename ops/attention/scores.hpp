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

inline void check_scale(const char* op, double scale) {
  if (!std::isfinite(scale)) refuse_scalar(op, "scale", "a finite number", scale);
}

/// A cap that f32 holds: kernels would make NaN of infinity · tanh(s / infinity).
inline void check_softcap(const char* op, double cap) {
  if (!(cap >= 0 && cap <= std::numeric_limits<float>::max()))
    refuse_scalar(op, "softcap", "0 or more, and finite", cap);
}

inline void check_window(const char* op, std::int64_t window) {
  if (window < -1) refuse_scalar(op, "window", "-1, or 0 and more", static_cast<double>(window));
}

}  // namespace dlblas::attention
