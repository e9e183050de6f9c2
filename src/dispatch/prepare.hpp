// The cold half of compile: what the first call of a plan does. Read next: dispatch/compile.cpp.
#pragma once

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// The plan's kernel, made and kept; see compile.
const Kernel& prepare_and_keep(const Plan& plan, void* stream);

}  // namespace dlblas
