// Keys and values of two widths in one call of store_kv_cache: two calls of store_mla_heads, keys
// alone, then values alone. Read next: store_kv_widths.cpp.
#pragma once

#include "core/implementation.hpp"

namespace dlblas::kv_cache {

/// Whether one pass of the row program stores both.
Support one_width(const Problem& problem);

/// Serves what `one_width` refuses.
Implementation one_by_one(const char* name, DeviceType backend);

}  // namespace dlblas::kv_cache
