// The C++ API of dlblas: header-only over the C ABI, no dependency. One typed function per
// operator: <dlblas/ops.hpp>.
//   tensor.hpp     TensorRef, OutRef, Tensor       error.hpp   typed exceptions
//   operator.hpp   any operator by name            tune.hpp    get_op, tune
//   context.hpp    your memory, threads, stream    info.hpp    inventory, counters, store
#ifndef DLBLAS_DLBLAS_HPP_
#define DLBLAS_DLBLAS_HPP_

#include <dlblas/context.hpp>
#include <dlblas/cpp20.hpp>
#include <dlblas/error.hpp>
#include <dlblas/info.hpp>
#include <dlblas/operator.hpp>
#include <dlblas/tensor.hpp>
#include <dlblas/tune.hpp>
#include <dlblas/value.hpp>

#endif  // DLBLAS_DLBLAS_HPP_
