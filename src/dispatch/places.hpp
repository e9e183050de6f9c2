// Values that address memory, checked on the CPU. A GPU call does not read them on the host.
// In: Args with all sizes bound. Out: nothing, or the typed Error. Used by: launch, the oracle.
#pragma once

#include "core/tensor.hpp"

namespace dlblas {

/// Refuses an input of TensorSpec::addresses that leads out of bounds: an offset below the one
/// before it, a length, slot or position at its limit or beyond, a negative length. A negative slot
/// or position names nothing and passes. Throws Error(kArgument) that names the tensor, the element
/// and its value. The tensors lie in the host's memory.
void check_places(const Args& args);

}  // namespace dlblas
