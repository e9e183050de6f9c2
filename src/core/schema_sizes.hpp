// The schema's grammar of sizes: `2F`, `(K+1)//G`, `D|2D`, `1|B`. Used by schema.cpp, which parses
// the rest; see schema.hpp for the grammar.
#pragma once

#include <cstdint>
#include <string>

#include "core/cursor.hpp"
#include "core/schema.hpp"

namespace dlblas {

/// The letter's index in the schema, which gets it where it is new.
std::int8_t letter_index(Cursor& c, Schema& schema, const std::string& name);

/// A size, without a dimension's star or `1|`; `first`: a number already read before it, or -1.
DimExpr parse_size(Cursor& c, Schema& schema, std::int32_t first = -1);

/// A dimension of a tensor; `first`: whether it is the tensor's first.
DimExpr parse_dim(Cursor& c, Schema& schema, bool first);

}  // namespace dlblas
