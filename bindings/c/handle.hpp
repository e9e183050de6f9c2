// dlblas_op_t is an opaque pointer to a registry Form.
#pragma once

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas {

/// The form behind a handle (call.cpp). Refuses null pointers and structures of another ABI, with a
/// message.
const Form& form_of(dlblas_op_t op, const dlblas_args* call);
inline dlblas_op_t handle_of(const Form& form) { return reinterpret_cast<dlblas_op_t>(&form); }

/// True if the form writes into this parameter's memory.
inline bool is_written(const Form& form, const Param& p) {
  if (!p.is_tensor) return false;
  if (form.op->schema.tensors[p.index].written) return true;
  if (!form.inplace) return false;
  const std::vector<std::int8_t>& sources = form.inplace->result_source;
  return std::find(sources.begin(), sources.end(), p.index) != sources.end();
}

}  // namespace dlblas
