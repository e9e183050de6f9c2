// Stores in folders of the user's own choosing, for Python; see kept.cpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

Object* kept_publish(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* kept_rows(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* kept_keys(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* kept_remove(Object* self, Object* const* args, Size nargs, Object* kwnames);

}  // namespace dlblas::py
