// Implementations that DLBLAS_DISABLE keeps out. In: its list, a name. Out: yes or no; the first
// time, a warning of each name in it that nothing has. Flow: check_support asks.  Read next:
// dispatch/decide.cpp.
#pragma once

#include <string_view>

namespace dlblas {

bool is_disabled(std::string_view implementation);

}  // namespace dlblas
