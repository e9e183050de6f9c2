// An environment variable that is a number of seconds; a wrong value is logged, once. A file of its
// own, because the log itself reads the table of env.hpp.
#pragma once

#include "core/env.hpp"

namespace dlblas {

/// The variable's value, if it is a number of seconds above 0; else the fallback.
double env_seconds(EnvVar v, double fallback);

}  // namespace dlblas
