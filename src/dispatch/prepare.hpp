// The cold half of compile: what the first call of a plan does, and each that may not be captured.
// Read next: dispatch/compile.cpp.
#pragma once

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// The plan's kernel, made and kept; or, where the stream is captured and the plan may not be, that
/// of the choice among those that may. See compile.
const Kernel& compile_cold(const Plan& plan, void* stream);

}  // namespace dlblas
