// torch tensors at the data plane: a call whose arrays are torch's goes to the operator that
// bindings/torch registered, as one call of torch's own builtin, with no DLPack between.
// In: the interpreter's argument vector. Out: the result, or "not mine": whatever is unusual about
// a call (names, kinds, a NumPy array among the tensors) is left to the marshaller and its words.
// Flow: [Python call] > torch > torch's dispatcher > bindings/torch/kernel.cpp.
// Read next: bindings/python/torch.cpp, python/dlblas/torch/_register.py.
#pragma once

#include <atomic>
#include <vector>

#include "bindings/python/function.hpp"

namespace dlblas::py {

/// Runs the call on torch. False: not a call on torch tensors alone, and nothing happened. True:
/// *result is new, or null with an error set.
bool call_torch(const Function& function, Object* const* args, Size nargs, Object* kwnames,
                Object** result);

/// True if this is one of torch's tensors.
bool is_torch(Object* array);
/// How many threads a call on torch tensors is given: torch's own setting, or 0, the library's.
std::int32_t torch_threads();

/// What torch is in this process. Set once, before any TorchCalls.
struct Torch {
  Object* tensor;       // torch.Tensor
  Object* parameter;    // torch.nn.Parameter
  Object* dtype;        // torch.dtype
  Object* transform;    // () -> None, outside the transforms of torch.func
  Object* forward;      // __dict__ of torch.autograd.forward_ad
  Object* unpack_dual;  // of the same
  Object* requires_grad_name;
  Object* level_name;
  // Where an object of `tensor` keeps the address of its c10::TensorImpl, verified against what
  // torch says of some; 0: nowhere known, or nothing to ask of it.
  int impl_offset;
};
extern std::atomic<const Torch*> g_torch;

inline const void* impl_at(const Object* tensor, int offset) {
  return *reinterpret_cast<const void* const*>(reinterpret_cast<const char*>(tensor) + offset);
}

/// How a form is called in torch: its callables, and where each of our parameters stands there.
struct TorchCalls {
  Object* plain;    // of a differentiable operator the private one, which autograd does not see
  Object* formula;  // the operator with its registered gradient; null: it has none
  Object* grad;     // autograd's Function around `plain`: 5 µs where `formula` takes 25
  Object* out;
  std::vector<std::int8_t> places;      // in `plain`, `formula` and `grad`: by parameter
  std::vector<std::int8_t> out_places;  // in `out`: by parameter, then by result
  std::vector<Object*> defaults;        // by parameter
};

/// (attach, torch_error): how the hooks of these names call dlblas.torch; see _torch_bridge.py.
Object* set_torch(Object* self, Object* const* args, Size nargs, Object* kwnames);
/// (operators with a gradient) -> a description of every operation defined now; see _register.py.
Object* torch_register(Object* self, Object* const* args, Size nargs, Object* kwnames);
/// (torch's classes and predicates, callables of each form): from now on call_torch answers.
Object* torch_attach(Object* self, Object* const* args, Size nargs, Object* kwnames);

}  // namespace dlblas::py
