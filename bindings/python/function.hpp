// One callable form of an operator as Python sees it: its name, signature, parameters and handle.
// In: the registry's Form. Out: Function, made once at import and read by every call. Read next:
// bindings/python/marshal.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/python/cpython.hpp"
#include "core/schema.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas::py {

struct Parameter {
  const char* name;
  Object* interned;  // the str that keyword names are compared with by address first
  bool keyword_only;
  bool written;
  const TensorSpec* tensor;  // null: a scalar
  const ScalarSpec* scalar;  // null: a tensor
};

struct TorchCalls;  // bindings/python/torch.cpp

struct Function {
  dlblas_op_t handle;
  const Form* form;
  std::string name;
  std::vector<Parameter> params;
  int num_positional;
  int num_results;  // that a call returns: 0 for most in-place forms
  std::vector<std::string> result_names;
  std::string doc;  // "name(signature)\n--\n\ntext"; `method` points into it
  MethodDef method;
  Object* callable;                                       // the builtin
  mutable std::atomic<const TorchCalls*> torch{nullptr};  // null until torch is there
  mutable std::atomic<bool> older_last{false};     // the last call was an older form's (init.cpp)
  mutable std::atomic<std::int8_t> has_older{-1};  // hooks.older_forms has one; -1: not known yet
  bool takes_dim;  // `dim=-1` may stand in a call (hooks.takes_dim), by place where x is alone
};

/// Makes the Function of a form; `text` is the rest of its docstring. Lives as long as the process.
Function* make_function(const Form& form, const char* text, bool takes_dim);
/// Finds a Function by name; null if there is none. Filled by make_function, under the
/// interpreter's lock.
const Function* find_function(const char* name);
/// `x, weight, eps=1e-06, *, weight_offset=0.0, out=None`: what inspect.signature shows.
std::string signature(const Function& function);

}  // namespace dlblas::py
