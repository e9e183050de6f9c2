// dlblas_op_t is a registry Form behind an opaque name.
#pragma once

#include "core/error.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas {

/// The form behind a handle; refuses null pointers and structures of another ABI in words.
inline const Form& form_of(dlblas_op_t op, const dlblas_args* call) {
  if (!op)
    throw Error(ErrorKind::kArgument,
                "dlblas: op is null; expected a handle of dlblas_op(), got NULL",
                {.argument = "op"});
  if (!call || call->size < sizeof(dlblas_args))
    throw Error(ErrorKind::kArgument,
                "dlblas: args has a wrong size; expected size = sizeof(dlblas_args) of this ABI",
                {.argument = "args"});
  return *reinterpret_cast<const Form*>(op);
}
inline dlblas_op_t handle_of(const Form& form) { return reinterpret_cast<dlblas_op_t>(&form); }

}  // namespace dlblas
