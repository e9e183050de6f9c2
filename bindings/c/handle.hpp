// dlblas_op_t is a registry Form behind an opaque name.
#pragma once

#include "core/error.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas {

/// The form behind a handle (call.cpp); refuses null pointers and structures of another ABI in
/// words.
const Form& form_of(dlblas_op_t op, const dlblas_args* call);
inline dlblas_op_t handle_of(const Form& form) { return reinterpret_cast<dlblas_op_t>(&form); }

}  // namespace dlblas
