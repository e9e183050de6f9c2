// dlblas_make_input: one input as the tuner makes it, for harnesses and tests outside. In: an
// operator's handle, an input's name, sizes, a seed. Out: the caller's memory, filled.
// Read next: tuner/filler.hpp.
#include <algorithm>

#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "tuner/filler.hpp"
#include "tuner/memory.hpp"

namespace dlblas {
namespace {

TensorView view_of(const Schema& schema, const TensorSpec& spec, const dlblas_tensor& from) {
  const auto no = [&](const char* problem, const std::string& expected, const std::string& got) {
    refuse(ErrorKind::kArgument, schema.name, {spec.name, problem, expected, got});
  };
  TensorView view{};
  view.dtype = dtype_from_dlpack(from.dtype.code, from.dtype.bits, from.dtype.lanes);
  view.rank = from.ndim;
  if (view.dtype == DType::kAbsent) no("has an unknown dtype", "one of the library's", "another");
  if (from.ndim < 0 || from.ndim > kMaxRank || (from.ndim > 0 && !from.shape))
    no("has a wrong rank", text("0 to ", kMaxRank, " dimensions with sizes"), text(from.ndim));
  if (from.device.type != static_cast<std::int32_t>(DeviceType::kCpu))
    no("is not in the host's memory", "device type 1", text(from.device.type));
  std::int64_t stride = 1;
  for (int i = from.ndim - 1; i >= 0; --i) {
    view.shape[i] = from.shape[i];
    view.strides[i] = from.strides ? from.strides[i] : stride;
    if (view.shape[i] < 0) no("has a negative size", "sizes from 0 on", text(view.shape[i]));
    stride *= std::max<std::int64_t>(1, view.shape[i]);
  }
  if (!from.data && view.numel() > 0) no("has no memory", "an address", "NULL");
  view.data = static_cast<char*>(from.data) + from.byte_offset;
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
    const Schema& schema = form_of(handle, &none).op->schema;
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
    const TensorView view = view_of(schema, schema.tensors[static_cast<std::size_t>(tensor)], *to);
    HostMemory memory{Context{}};
    if (view.numel() > 0) memory.fill(view, make_filler(schema, tensor, letters, view, seed));
  });
}
