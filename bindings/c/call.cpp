// dlblas_call: one operator call, five stages. The whole of what happens is the body below.
// In: a form's handle, dlblas_args, an optional context. Out: a status; results written.
// No exception crosses this border: a failure becomes a status and a text (bindings/c/error.cpp).
// Flow: [dlblas_call] > call > validate > select > compile > launch.
// Read next: dispatch/call.cpp, docs/flow.md.
#include "bindings/c/context.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "core/counters.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {

const Form& form_of(dlblas_op_t op, const dlblas_args* call) {
  if (!op)
    throw Error(ErrorKind::kArgument,
                "dlblas: op is null; expected a handle of dlblas_op(), got NULL",
                {.argument = "op"});
  if (!call || call->size < sizeof(dlblas_args))
    throw Error(ErrorKind::kArgument,
                "dlblas: args has a wrong size; expected size = sizeof(dlblas_args) of this ABI",
                {.argument = "args"});
  return *reinterpret_cast<const Form*>(op);
}

}  // namespace dlblas

extern "C" dlblas_status dlblas_call(dlblas_op_t op, const dlblas_args* call,
                                     const dlblas_context* user) {
  using namespace dlblas;
  try {
    const Form& form = form_of(op, call);
    const CallSide side(user, call->outputs);
    Args args;
    Problem problem;
    bind(form, *call, args);
    validate(*form.op, *call, side.num_threads(), args, problem);
    const Plan& plan = select(*form.op, problem);
    const Kernel& kernel = compile(plan);
    launch(kernel, args, side.context());
    count(g_counters.calls);
    return DLBLAS_OK;
  } catch (...) {
    return keep_exception();
  }
}
