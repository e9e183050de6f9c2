// Stage 5, launch: results and workspace from the context, then the kernel's steps.
// In: Kernel, Args, Context. Out: the results, written. Chooses nothing, formats nothing on the
// good path. Flow: call > validate > select > compile > [launch].  Read next: the step of the
// chosen implementation, for example ops/norm/norm_rows_cpu.cpp.
#include <optional>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "dispatch/complain.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kResultAlign = 16;

[[noreturn]] void no_memory(const Args& args, std::string_view what, std::size_t bytes) {
  const bool gpu = args.tensors[0].device.type == DeviceType::kCuda;
  throw Error(ErrorKind::kLaunch,
              text(args.schema->name, ": ", what, " could not be allocated; expected ", bytes,
                   " bytes, got none; free memory of the ", gpu ? "GPU" : "host",
                   ", or call with smaller tensors"),
              {args.schema->name, std::string(what), text(bytes, " bytes"), "none"});
}

std::string strides_of(const TensorView& t) {
  std::string s = "strides (";
  for (int i = 0; i < t.rank; ++i) s += text(i ? ", " : "", t.strides[i]);
  return s + ")";
}

[[noreturn]] void other_memory(const Args& args, int r, const std::string& expected,
                               const std::string& got) {
  const std::string& name = args.schema->tensors[args.schema->num_inputs + r].name;
  throw Error(ErrorKind::kArgument,
              text(args.schema->name, ": ", name,
                   " is not in the memory that was asked of new_output; expected ", expected,
                   ", got ", got, "; pass such a result as an output instead"),
              {args.schema->name, name, expected, got});
}

// The kernel was chosen, and compiled, for the strides asked for and for 16 bytes (see traits_of).
void require_as_asked(const Args& args, int r, const TensorView& asked) {
  const TensorView& made = args.result(r);
  if (made.numel() == 0) return;
  for (int i = 0; i < asked.rank; ++i)
    if (asked.shape[i] != 1 && made.strides[i] != asked.strides[i])
      other_memory(args, r, strides_of(asked), strides_of(made));
  if (reinterpret_cast<std::uintptr_t>(made.data) % kResultAlign == 0) return;
  const int wanted = traits_of(asked).align_log2, got = traits_of(made).align_log2;
  if (got < wanted)
    other_memory(args, r, text("an address that is a multiple of ", 1 << wanted),
                 text("a multiple of ", 1 << got));
}

// A result yet to be made.
void make_result(Args& args, int r, const Context& context) {
  TensorView& t = args.result(r);
  const TensorView asked = t;
  if (context.new_output(context.self, r, &t) != 0 || (!t.data && t.numel() > 0))
    no_memory(args, args.schema->tensors[args.schema->num_inputs + r].name,
              static_cast<std::size_t>(t.numel()) * static_cast<std::size_t>(size_of(t.dtype)));
  require_as_asked(args, r, asked);
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
  for (int i = 0; i < kernel.num_steps; ++i)
    if (const int code = kernel.steps[i](args, context, kernel, workspace)) return code;
  return 0;
}

void launch(const Kernel& kernel, Args& args, const Context& context) {
  const Schema& schema = *args.schema;
  std::optional<cuda::CurrentDevice> current;  // on this thread, whichever it is
  if (context.device.type == DeviceType::kCuda) current.emplace(context.device.index);
  for (int i = 0; i < schema.num_inputs; ++i)
    if (args.has(i) && !args.tensors[i].data && args.tensors[i].numel() > 0)
      complain::no_data(schema, args, i);
  bool empty = true;  // zero-size results need no kernel
  for (int r = 0; r < schema.num_results; ++r) {
    TensorView& t = args.result(r);
    if (!t.data && !args.inplace) make_result(args, r, context);
    empty &= t.numel() == 0;
  }
  if (empty) return;
  void* workspace = nullptr;
  if (kernel.workspace_bytes > 0) {
    workspace = context.alloc(context.self, kernel.workspace_bytes, 64);
    if (!workspace) no_memory(args, "workspace", kernel.workspace_bytes);
  }
  if (const int code = run_steps(kernel, args, context, workspace)) step_failed(args, kernel, code);
  count(g_counters.launched);
}

}  // namespace dlblas
