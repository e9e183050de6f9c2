// dlblas_warmup: a call without its launch, so that a graph capture, a latency-critical first
// request or a process with DLBLAS_JIT=0 finds the kernel ready. Read next: dispatch/compile.cpp.
#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"
#include "core/absent_device.hpp"
#include "dispatch/nested.hpp"
#include "jit/jit.hpp"

namespace dlblas {
namespace {

// Compiles every kernel of a plan and its parts into the on-disk cache. Loads nothing.
void compile_ahead(const Plan& plan) {
  const Problem& problem = plan.problem;
  const DeviceInfo& device = device_info(problem.device());
  const Query q{problem, device, *plan.implementation};
  if (q.self.sources) jit::compile_all(q.self.sources(q, plan.config), device.arch);
  for (const DecidedPart& part : decide_parts(q, plan.config)) compile_ahead(*part.plan);
}

}  // namespace
}  // namespace dlblas

extern "C" dlblas_status dlblas_warmup(dlblas_op_t op, const dlblas_args* call,
                                       const dlblas_context* user) {
  using namespace dlblas;
  return guarded([&] {
    const BoundCall bound_call(op, call, user);
    const Plan& plan = select(bound_call.op, bound_call.problem);
    const bool absent = is_absent(bound_call.problem.device());
    void* const stream = bound_call.side.context().stream;
    absent ? compile_ahead(plan) : void(compile(plan, stream));
    const Prepared* prepared = plan.prepared.load(std::memory_order_acquire);
    if (prepared ? prepared->capturable : plan.implementation->flags.capturable) return;
    if (bound_call.problem.device_type != DeviceType::kCuda) return;
    try {  // what serves the same call under capture, where anything does
      const Plan& captured = select(bound_call.op, for_capture(bound_call.problem));
      absent ? compile_ahead(captured) : void(compile(captured, stream));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
  });
}
