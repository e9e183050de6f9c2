// dlblas_make_input: one input as the tuner makes it, for external harnesses and tests.
// In: an operator's handle, an input's name, sizes, a seed. Out: the caller's memory, filled.
// Read next: tuner/filler.hpp.
#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "dispatch/read_tensor.hpp"
#include "tuner/filler.hpp"
#include "tuner/memory.hpp"

namespace dlblas {
namespace {

TensorView view_of(const Form& form, const TensorSpec& spec, const dlblas_tensor& from) {
  TensorView view{};
  read_tensor(form, spec.name, from, view);
  const auto no = [&](const char* problem, const char* expected, const std::string& got) {
    refuse(ErrorKind::kArgument, form.op->schema.name, {spec.name, problem, expected, got});
  };
  if (view.device.type != DeviceType::kCpu)
    no("is not in the host's memory", "device type 1", text(from.device.type));
  if (!view.data && view.numel() > 0) no("has no memory", "an address", "NULL");
  return view;
}

}  // namespace
}  // namespace dlblas

extern "C" dlblas_status dlblas_make_input(dlblas_op_t handle, const char* name,
                                           const int64_t* letters, uint64_t seed,
                                           const dlblas_tensor* to) {
  using namespace dlblas;
  return guarded([&] {
    dlblas_args none{};
    none.size = sizeof none;
    const Form& form = form_of(handle, &none);
    const Schema& schema = form.op->schema;
    if (!name || !to || (!letters && !schema.letters.empty()))
      refuse(ErrorKind::kArgument, schema.name,
             {!name ? "name"
              : !to ? "to"
                    : "letters",
              "is null", "a value", "NULL"});
    const int param = schema.find_param(name);
    if (param < 0 || !schema.params[static_cast<std::size_t>(param)].is_tensor)
      refuse(ErrorKind::kArgument, schema.name,
             {"name", "names no input", "one of the schema's tensors", name});
    const int tensor = schema.params[static_cast<std::size_t>(param)].index;
    const TensorView view = view_of(form, schema.tensors[static_cast<std::size_t>(tensor)], *to);
    HostMemory memory{Context{}};
    if (view.numel() > 0) memory.fill(view, make_filler(schema, tensor, letters, view, seed));
  });
}
