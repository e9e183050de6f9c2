// dlblas_warmup: a call without its launch, so that a capture, a latency-bound first request or a
// process with DLBLAS_JIT=0 finds the kernel ready. Read next: dispatch/compile.cpp.
#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"

extern "C" dlblas_status dlblas_warmup(dlblas_op_t op, const dlblas_args* call,
                                       const dlblas_context* user) {
  using namespace dlblas;
  return guarded([&] {
    const BoundCall bound_call(op, call, user);
    compile(select(bound_call.op, bound_call.problem), bound_call.side.context().stream);
  });
}
