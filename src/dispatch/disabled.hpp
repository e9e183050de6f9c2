// Implementations that DLBLAS_DISABLE excludes. In: its list, a name. Out: yes or no; on first use,
// a warning for each name in the list that no implementation has. Flow: check_support asks.
// Read next: dispatch/decide.cpp.
#pragma once

#include <string_view>

namespace dlblas {

bool is_disabled(std::string_view implementation);

}  // namespace dlblas
