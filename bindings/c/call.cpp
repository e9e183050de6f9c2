// dlblas_call: one operator call in five stages. The body below is everything that happens.
// In: a form's handle, dlblas_args, an optional context. Out: a status; results written.
// No exception crosses this border: a failure becomes a status and a text (bindings/c/error.cpp).
// Flow: [dlblas_call] > call > validate > select > compile > launch.
// Read next: dispatch/call.cpp, docs/flow.md.

#include "bindings/c/context.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "core/counters.hpp"
#include "core/digits.hpp"
#include "core/error.hpp"
#include "core/in_flight.hpp"
#include "core/log.hpp"
#include "core/ranges.hpp"
#include "dispatch/dispatch.hpp"
#include "tuner/measure.hpp"

namespace dlblas {

const Form& form_of(dlblas_op_t op, const dlblas_args* call) {
  constexpr std::uint32_t kFlags = DLBLAS_DETERMINISTIC | DLBLAS_ALLOW_TF32 | DLBLAS_REPEATABLE;
  if (!op)
    refuse(ErrorKind::kArgument, "dlblas", {"op", "is null", "a handle of dlblas_op()", "NULL"});
  const Form& form = *reinterpret_cast<const Form*>(op);
  if (!call || call->size < sizeof(dlblas_args) || call->num_values < 0 || call->num_named < 0 ||
      (!call->values && call->num_values > 0) || (!call->names && call->num_named > 0) ||
      (call->flags & ~kFlags) != 0)
    refuse(ErrorKind::kArgument, std::string(form.name),
           {"args", "is malformed", "size, values, names and flags of this header's dlblas_args",
            call ? "others" : "NULL"});
  return form;
}

namespace {
// call,<op>,<dims>,<dtype>,<device>,<implementation>,<configuration>,<why>,<time>: on a GPU, the
// time until the call was queued.
[[gnu::noinline, gnu::cold]] void log_call(const Operator& op, const Plan& chosen,
                                           const Kernel& kernel, std::int64_t nanoseconds) {
  const bool captured = kernel.implementation != chosen.implementation;
  const Plan& plan = captured ? select(op, for_capture(chosen.problem)) : chosen;
  const std::string spent = microseconds(1e-6 * static_cast<double>(nanoseconds), "us");
  const Implementation& impl = *plan.implementation;
  log(LogTopic::kCall, text(op.schema.name, ",", log_fields(op, plan.problem), ",", impl.name, ",",
                            impl.table().print(plan.config), ",", name_of(plan.why), ",", spent));
}

// The name of a profiler range: `dlblas::rms_norm cuda_registers threads=256 … T=16 C=4096 bf16`.
[[gnu::noinline, gnu::cold]] std::string range_name(const Operator& op, const Plan& plan) {
  const Implementation& impl = *plan.implementation;
  return text("dlblas::", op.schema.name, " ", impl.name, " ", impl.table().print(plan.config),
              ", ", log_fields(op, plan.problem));
}
}  // namespace

}  // namespace dlblas

extern "C" dlblas_status dlblas_call(dlblas_op_t op, const dlblas_args* call,
                                     const dlblas_context* user) {
  using namespace dlblas;
  try {
    const InFlight in_flight;
    const Form& form = form_of(op, call);
    if (!call->outputs && form.num_outputs > 0)
      refuse(ErrorKind::kArgument, std::string(form.name),
             {"outputs", "is null", "one tensor a result, data NULL for a new one", "NULL"});
    const std::int64_t begin = logs(LogTopic::kCall) ? steady_nanoseconds() : 0;
    CallSide side(user, call->outputs);
    Args args;
    Problem problem;
    bind(form, *call, args);
    validate(*form.op, *call, side.num_threads(), args, problem);
    side.set_device(problem.device());
    const Plan& plan = select(*form.op, problem);
    const Kernel& kernel = compile(plan, side.context().stream);
    CallRange range;
    if (wants_ranges()) range.open(range_name(*form.op, plan));
    launch(kernel, args, side.context());
    count(g_counters.calls);
    if (begin) log_call(*form.op, plan, kernel, steady_nanoseconds() - begin);
    return DLBLAS_OK;
  } catch (...) {
    return keep_exception();
  }
}
