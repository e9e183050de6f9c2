// Stage 4, compile: a Plan becomes a Kernel, prepared once and kept with the plan.
// In: Plan. Out: Kernel. Reads no tensor. A plan that may not be captured asks the driver at each
// call whether the stream is being captured; if so, another plan serves (prepare.cpp). Flow: call >
// validate > select > [compile] > launch. Read next: dispatch/launch.cpp; dispatch/prepare.cpp for
// the first call of a plan.
#include "dispatch/dispatch.hpp"
#include "dispatch/prepare.hpp"

namespace dlblas {

const Kernel& compile(const Plan& plan, void* stream) {
  const Prepared* prepared = plan.prepared.load(std::memory_order_acquire);
  return prepared && prepared->capturable ? prepared->kernel : compile_cold(plan, stream);
}

}  // namespace dlblas
