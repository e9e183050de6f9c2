// The cold half of compile: the work of a plan's first call, and of every call of a plan that may
// not be captured. Read next: dispatch/compile.cpp.
#pragma once

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// The plan's kernel, prepared and kept; or, if the stream is being captured and the plan may not
/// be, the kernel chosen among those that may. See compile.
const Kernel& compile_cold(const Plan& plan, void* stream);

}  // namespace dlblas
