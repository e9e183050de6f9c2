// Arguments of a C call, bound and validated, for the functions that do not run it: explain, tune,
// verify, ….
#pragma once

#include "bindings/c/context.hpp"
#include "bindings/c/handle.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {

struct BoundCall {
  BoundCall(dlblas_op_t handle, const dlblas_args* call, const dlblas_context* user)
      : form(form_of(handle, call)), op(*form.op), side(user, nullptr) {
    bind(form, *call, args);
    validate(op, *call, side.num_threads(), args, problem);
    side.set_device(problem.device());
  }
  const Form& form;
  const Operator& op;
  CallSide side;
  Args args;
  Problem problem;
};

}  // namespace dlblas
