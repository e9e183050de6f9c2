// The names a new operator may have: none that Python or torch could not call, and none that an
// existing operation has. In: its schema and in-place forms, and the names of all forms known. Out:
// a typed error. Read next: registry/registry.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "core/schema.hpp"

namespace dlblas {

/// Throws Error(kArgument) naming the form or argument. For every form `f`, torch also gets
/// `f_out`, and `_f` if `f` has a gradient: no two forms may share one of the three.
void check_names(const Schema& schema, const std::vector<InplaceForm>& inplace_forms,
                 const std::vector<std::string_view>& known);

}  // namespace dlblas
