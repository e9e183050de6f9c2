// What torch is given for one callable form: a name, a torch schema, and which slot of a boxed
// kernel's stack holds which argument. All of it derives from the operator's schema; no operator is
// named here.
//
//   rms(x: f[*T, C], weight: f[C], eps: float = 1e-6, *, bias: f[C]?) -> y: like(x)[*T, C]
//     x      rms(Tensor x, Tensor weight, float eps=1e-06, Tensor? bias=None) -> Tensor
//     x_out  rms_out(Tensor x, Tensor weight, Tensor(a!) out, float eps=1e-06, …) -> ()
//     _x     as x; what autograd's own operator x stands on
//     x_     rms_(Tensor(a!) x, Tensor weight, …) -> (), or the results that no argument receives;
//            then x__out writes into those
//
// No keyword-only argument, no result that aliases an argument, no overload: each costs
// microseconds per call or breaks torch.compile. torch requires arguments without a default first,
// so results to write into precede the defaults. Read next: bindings/torch/register.cpp.
#pragma once

#include <string>
#include <vector>

#include "bindings/torch/shims.hpp"
#include "registry/registry.hpp"

namespace dlblas::torch {

struct Slot {
  enum class Kind : std::uint8_t { kTensor, kResult, kScalar };
  Kind kind;
  std::uint8_t index;     // of the form's parameter, or of the output
  bool optional = false;  // comes as a pointer to a slot, or null
  bool written = false;
  ScalarType type = ScalarType::kFloat;  // of a scalar
};

struct Operation {
  const Form* form;
  std::string name;    // "rms_norm_out"
  std::string schema;  // torch's
  std::vector<Slot> slots;
  bool out = false;      // writes into tensors it is given beside its arguments
  bool written = false;  // has any written tensor
  bool lazy = false;     // for tensors whose memory does not hold their values: refuses
  std::int32_t num_returned = 0;
};

/// The operations of a form, in this order: itself, `_out`, and the private one if requested. A
/// form that returns nothing has only itself; an in-place form never has the private one.
std::vector<Operation> operations_of(const Form& form, bool with_private);

/// torch's name for an output of the `_out` operation: "out", or the results' own names.
std::string out_name(const Form& form, int output);

}  // namespace dlblas::torch
