// torch tensors in the data plane: a call whose arrays are torch's goes to the operator that
// bindings/torch registered, as one call of torch's own builtin, without DLPack in between.
// In: the interpreter's argument vector. Out: the result, or "not mine": anything unusual about a
// call (names, types, a NumPy array among the tensors) is left to the marshaller and its messages.
// Flow: [Python call] > torch > torch's dispatcher > bindings/torch/kernel.cpp.
// Read next: bindings/python/torch.cpp, python/dlblas/torch/_register.py.
#pragma once

#include <atomic>
#include <vector>

#include "bindings/python/function.hpp"

namespace dlblas::py {

/// Runs the call on torch. False: the call is not on torch tensors alone, and nothing happened.
/// True: *result is new, or null with an error set.
bool call_torch(const Function& function, Object* const* args, Size nargs, Object* kwnames,
                Object** result);

/// True if this is one of torch's tensors.
bool is_torch(Object* array);
/// The thread count for a call on torch tensors: torch's own setting, or 0, the library's.
std::int32_t torch_threads();

/// torch's objects in this process. Set once, before any TorchCalls.
struct Torch {
  Object* tensor;       // torch.Tensor
  Object* parameter;    // torch.nn.Parameter
  Object* dtype;        // torch.dtype
  Object* transform;    // () -> None, outside the transforms of torch.func
  Object* forward;      // __dict__ of torch.autograd.forward_ad
  Object* unpack_dual;  // of the same
  Object* requires_grad_name;
  Object* level_name;
  // Offset in a `tensor` object of the address of its c10::TensorImpl, verified on samples against
  // torch's own answers; 0: not found, or there is nothing to read from it.
  int impl_offset;
};
extern std::atomic<const Torch*> g_torch;

inline const void* impl_at(const Object* tensor, int offset) {
  return *reinterpret_cast<const void* const*>(reinterpret_cast<const char*>(tensor) + offset);
}

/// How a form is called in torch: its callables, and the position there of each of our parameters.
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
/// (torch's classes and predicates, callables of each form): from then on call_torch takes calls.
Object* torch_attach(Object* self, Object* const* args, Size nargs, Object* kwnames);

}  // namespace dlblas::py
