// One tensor of the C ABI as a view, every field checked. Used by: dispatch/call.cpp and whatever
// takes a tensor outside a call (bindings/c/make_input.cpp).
#pragma once

#include <string_view>

#include "core/tensor.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas {

/// Copies a DLPack-shaped descriptor into a view; absent strides mean contiguous. Throws a typed
/// Error that names the tensor.
void read_tensor(const Form& form, std::string_view name, const dlblas_tensor& from,
                 TensorView& to);

}  // namespace dlblas
