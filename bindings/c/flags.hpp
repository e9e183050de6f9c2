// Flags that apply to every call of this thread in addition to its arguments: DLBLAS_DETERMINISTIC
// inside dlblas.deterministic(), DLBLAS_REPEATABLE inside dlblas.repeatable(), DLBLAS_ALLOW_TF32
// inside dlblas.allow_tf32(). Read where a binding fills in its dlblas_args.
#pragma once

#include <cstdint>

namespace dlblas {

inline thread_local constinit std::uint32_t t_call_flags = 0;

}  // namespace dlblas
