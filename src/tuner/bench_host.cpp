// Host time of a warm call; see machine.hpp. The five stages are those of a real call; only the
// work of the kernel's steps and of the allocator is left out.
#include <algorithm>
#include <cstdint>

#include "tuner/machine.hpp"

namespace dlblas {
namespace {

alignas(64) std::byte g_memory[64];

int do_nothing(const Args&, const Context&, const Kernel&, void*) { return 0; }
int give_static_memory(void*, int, TensorView* out) {
  out->data = g_memory;
  return 0;
}
void* static_workspace(void*, std::size_t, std::size_t) { return g_memory; }

}  // namespace

double host_time_ns(const Form& form, const dlblas_args& call, int threads, ClockFn clock) {
  Context context;
  context.num_threads = threads;
  context.new_output = give_static_memory;
  context.alloc = static_workspace;
  Kernel stub;  // the call's own kernel, its steps replaced
  const auto one_call = [&]() -> const Kernel& {
    Args args;
    Problem problem;
    bind(form, call, args);
    validate(*form.op, call, threads, args, problem);
    const Kernel& kernel = compile(select(*form.op, problem));
    launch(stub, args, context);
    return kernel;
  };
  const Kernel& kernel = one_call();  // decides and prepares, and launches no step
  stub.implementation = kernel.implementation;
  stub.num_steps = kernel.num_steps;
  stub.workspace_bytes = kernel.workspace_bytes;
  std::fill(std::begin(stub.steps), std::end(stub.steps), do_nothing);

  constexpr int kRounds = 200, kCalls = 1000;
  std::int64_t best = INT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t begin = clock();
    for (int i = 0; i < kCalls; ++i) one_call();
    best = std::min(best, clock() - begin);
  }
  return static_cast<double>(best) / kCalls;
}

}  // namespace dlblas
