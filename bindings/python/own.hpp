// Registration of users' own implementations and operators from Python; see own.cpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

Object* own_register(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* own_unregister(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* own_register_operator(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* own_schema(Object* self, Object* const* args, Size nargs, Object* kwnames);
Object* own_functions(Object* self, Object* const* args, Size nargs, Object* kwnames);

}  // namespace dlblas::py
