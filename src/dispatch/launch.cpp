// Stage 5, launch: results and workspace from the context, then the kernel's steps.
// In: Kernel, Args, Context. Out: the results, written. Chooses nothing, formats nothing on the
// good path. Flow: call > validate > select > compile > [launch].  Read next: the step of the
// chosen implementation, for example src/kernels/rows_cpu.cpp.
#include <optional>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "core/plain_floats.hpp"
#include "cuda/cuda.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/errors.hpp"
#include "dispatch/places.hpp"

namespace dlblas {
namespace {

// The kernel was chosen, and compiled, for these strides and 16-byte alignment (see traits_of).
bool as_asked(const TensorView& made, const TensorView& asked) {
  for (int i = 0; i < asked.rank; ++i)
    if (asked.shape[i] != 1 && made.strides[i] != asked.strides[i]) return false;
  return reinterpret_cast<std::uintptr_t>(made.data) % 16 == 0 ||
         traits_of(made).align_log2 >= traits_of(asked).align_log2;
}

void make_result(const Context& context, Args& args, int r, int output) {
  TensorView& t = args.result(r);
  const TensorView asked = t;
  const int code = context.new_output(context.self, output, &t);
  if (code != 0 || (t.numel() > 0 && !t.data)) errors::no_memory(*args.schema, args, r);
  if (t.numel() > 0 && !as_asked(t, asked)) errors::other_memory(*args.schema, args, r, asked);
}

[[noreturn]] void step_failed(const Args& args, const Kernel& kernel, int code) {
  const Implementation& impl = *kernel.implementation;
  const std::string got =
      impl.backend == DeviceType::kCuda ? cuda::error_text(code) : text("code ", code);
  throw Error(ErrorKind::kLaunch,
              text(args.schema->name, ": ", impl.name, " failed; expected 0, got ", got),
              {.op = args.schema->name, .argument = impl.name, .expected = "0", .got = got});
}

}  // namespace

int run_steps(const Kernel& kernel, const Args& args, const Context& context, void* workspace) {
  const PlainFloats plain;
  for (int i = 0; i < kernel.num_steps; ++i)
    if (const int code = kernel.steps[i](args, context, kernel, workspace)) return code;
  return 0;
}

bool launch_into(const Kernel& kernel, const Args& args, const Context& context, void* workspace) {
  const Schema& schema = *args.schema;
  bool empty = true;  // no element to write: no kernel
  for (int j = 0; j < schema.num_judged(); ++j)
    empty &= !args.judges(j) || args.judged(j).numel() == 0;
  if (empty) return false;
  if (!workspace && kernel.workspace_bytes > 0) {
    workspace = context.alloc(context.self, kernel.workspace_bytes, 64);
    if (!workspace) errors::no_workspace(schema, args, kernel.workspace_bytes);
  }
  if (const int code = run_steps(kernel, args, context, workspace)) step_failed(args, kernel, code);
  return true;
}

void launch(const Kernel& kernel, Args& args, const Context& context) {
  const Schema& schema = *args.schema;
  std::optional<cuda::CurrentDevice> current;  // on this thread, whichever it is
  if (context.device.type == DeviceType::kCuda) current.emplace(context.device.index);
  for (int i = 0; i < schema.num_inputs; ++i)
    if (args.has(i) && !args.tensors[i].data && args.tensors[i].numel() > 0)
      errors::no_data(schema, args, i);
  if (schema.addresses && context.device.type == DeviceType::kCpu) check_places(args);
  int output = 0;  // in an in-place form, of the results that no argument receives
  for (int r = 0; r < schema.num_results; ++r) {
    const bool received = args.received(r);
    if (!args.result(r).data && !received) make_result(context, args, r, output);
    output += !received;
  }
  if (launch_into(kernel, args, context, nullptr)) count(g_counters.launched);
}

}  // namespace dlblas
