// Values that address memory, checked on the CPU. A GPU call does not read them on the host.
// In: Args with all sizes bound. Out: nothing, or the typed Error. Used by: launch, the oracle.
#pragma once

#include "core/tensor.hpp"

namespace dlblas {

/// Refuses an input of Schema::addresses with a value out of bounds: an offset below the one before
/// it or beyond the limit, a length or a count (an inclusive fill) below 0 or beyond the limit, a
/// slot or position at its limit. A negative slot or position names nothing and passes.
/// Throws Error(kArgument) that names the tensor, the element and its value. The tensors must be in
/// host memory.
void check_places(const Args& args);

}  // namespace dlblas
