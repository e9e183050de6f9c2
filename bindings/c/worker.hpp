// Which program measures: for the functions that tune. Read next: bindings/c/worker.cpp.
#pragma once

#include "tuner/tune.hpp"

namespace dlblas {

/// Searches start the program that dlblas_set_worker named, else dlblas_worker beside the library;
/// starting says what is missing. Inside a worker, which needs none, nothing changes.
void set_worker_of(TuneOptions& options);

}  // namespace dlblas
