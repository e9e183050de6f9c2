// Which program measures: for the functions that tune. Read next: bindings/c/worker.cpp.
#pragma once

#include "tuner/worker_link.hpp"

namespace dlblas {

/// Starts the program that dlblas_set_worker named, else dlblas_worker beside the library; starting
/// says what is missing. Empty inside a worker, which needs none.
worker::Start worker_starter();

}  // namespace dlblas
