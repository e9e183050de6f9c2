// Chooses the program that measures, for the functions that tune. Read next: bindings/c/worker.cpp.
#pragma once

#include "tuner/tune.hpp"

namespace dlblas {

/// Makes searches start the program that dlblas_set_worker named, else dlblas_worker beside the
/// library; if neither exists, starting fails with a message. Inside a worker, which needs none,
/// this does nothing.
void set_worker_of(TuneOptions& options);

}  // namespace dlblas
