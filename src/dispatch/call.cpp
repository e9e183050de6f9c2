// Stage 1, call: the caller's values become Args in schema order, defaults filled in.
// In: dlblas_args (positional values, then named ones). Out: Args; optional tensors that are absent
// have no bit. Looks at no dtype and no architecture. Flow: [call] > validate > select > compile >
// launch. Read next: dispatch/validate.cpp.
#include "core/error.hpp"
#include "core/reach.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/errors.hpp"
#include "dispatch/read_tensor.hpp"

namespace dlblas {

void read_tensor(const Form& form, std::string_view name, const dlblas_tensor& from,
                 TensorView& to) {
  if (from.ndim < 0 || from.ndim > kMaxRank || (from.ndim > 0 && !from.shape))
    errors::bad_rank(form, name, from);
  to.rank = from.ndim;
  to.dtype = dtype_from_dlpack(from.dtype.code, from.dtype.bits, from.dtype.lanes);
  if (to.dtype == DType::kAbsent)
    errors::unknown_dtype(form, name, from.dtype.code, from.dtype.bits);
  if (!is_device(from.device.type, from.device.index)) errors::bad_device(form, name, from.device);
  to.device = {static_cast<DeviceType>(from.device.type),
               static_cast<std::int16_t>(from.device.index)};
  std::int64_t expected = 1;  // the packed stride; a size of 0 counts as 1, as in NumPy
  std::int64_t first = 0;
  Reach reach;
  for (int i = from.ndim - 1; i >= 0; --i) {
    to.shape[i] = from.shape[i];
    to.strides[i] = from.strides ? from.strides[i] : expected;
    if (to.shape[i] < 0) errors::negative_size(form, name, to.shape[i]);
    if (__builtin_mul_overflow(expected, to.shape[i] > 0 ? to.shape[i] : 1, &expected) ||
        expected > kMaxElements)
      errors::too_large(form, name);
    if (!reach.add(to.shape[i], to.strides[i])) errors::too_far(form, name);
  }
  if (!reach.place(from.data, from.byte_offset, size_of(to.dtype), &first))
    errors::too_far(form, name);
  to.data = from.data ? reinterpret_cast<void*>(first) : nullptr;
}

namespace {

void read_scalar(const Form& form, const ScalarSpec& spec, const dlblas_value& from,
                 ScalarValue& to) {
  switch (spec.type) {
    case ScalarType::kFloat:
      if (from.kind == DLBLAS_FLOAT) return void(to.f = from.as.f);
      if (from.kind == DLBLAS_INT) return void(to.f = static_cast<double>(from.as.i));
      break;
    case ScalarType::kInt:
      if (from.kind != DLBLAS_INT) break;
      to.i = from.as.i;
      if (spec.letter < 0 || (to.i >= 0 && to.i <= kMaxElements)) return;
      break;
    case ScalarType::kBool:
      if (from.kind == DLBLAS_BOOL || (from.kind == DLBLAS_INT && (from.as.i | 1) == 1))
        return void(to.i = from.as.i != 0);
      break;
    case ScalarType::kEnum:
      if (from.kind != DLBLAS_STRING || !from.as.s) break;
      for (std::size_t i = 0; i < spec.labels.size(); ++i)
        if (spec.labels[i] == from.as.s) return void(to.i = static_cast<std::int64_t>(i));
      break;
    case ScalarType::kDType: {
      if (from.kind != DLBLAS_STRING || !from.as.s) break;
      const DType t = dtype_from_name(from.as.s);
      if (t != DType::kAbsent && (spec.dtypes & set_of(t)))
        return void(to.i = static_cast<std::int64_t>(t));
      break;
    }
  }
  errors::bad_scalar(form, spec, from);
}

void read_value(const Form& form, const Param& param, const dlblas_value& from, Args& args) {
  const Schema& schema = *args.schema;
  if (param.is_tensor) {
    const TensorSpec& spec = schema.tensors[param.index];
    if (from.kind != DLBLAS_TENSOR || !from.as.tensor) errors::not_a_tensor(form, spec, from);
    read_tensor(form, spec.name, *from.as.tensor, args.tensors[param.index]);
    args.present |= 1u << param.index;
  } else {
    read_scalar(form, schema.scalars[param.index], from, args.scalars[param.index]);
  }
}

// The parameter that a named value belongs to.
std::size_t find_named(const Form& form, const char* name) {
  if (!name) errors::unknown_argument(form, "(null)");
  const std::vector<Param>& params = *form.params;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (form.op->schema.param_name(params[i]) == name) return i;
  errors::unknown_argument(form, name);
}

}  // namespace

void bind(const Form& form, const dlblas_args& call, Args& args) {
  const Schema& schema = form.op->schema;
  const std::vector<Param>& params = *form.params;
  args.schema = &schema;
  args.inplace = form.inplace;
  const int positional = call.num_values - call.num_named;
  if (positional < 0 || call.num_values > static_cast<int>(params.size()))
    errors::too_many_arguments(form, call.num_values);

  std::uint32_t given = 0;  // bit i: params[i] has a value
  for (int v = 0; v < call.num_values; ++v) {
    const std::size_t i = v < positional ? v : find_named(form, call.names[v - positional]);
    if (given >> i & 1u) errors::given_twice(form, params[i]);
    given |= 1u << i;
    if (call.values[v].kind != DLBLAS_NONE)
      read_value(form, params[i], call.values[v], args);
    else
      given &= ~(1u << i);
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (given >> i & 1u) continue;
    const Param& param = params[i];
    if (param.is_tensor ? !schema.tensors[param.index].optional
                        : !schema.scalars[param.index].has_default)
      errors::missing_argument(form, param);
    if (!param.is_tensor) args.scalars[param.index] = schema.scalars[param.index].default_value;
  }
  // An in-place form may leave scalars out: they keep their defaults.
  if (form.inplace && form.params->size() < schema.params.size())
    for (std::size_t s = 0; s < schema.scalars.size(); ++s) {
      bool named = false;
      for (const Param& p : params) named |= !p.is_tensor && p.index == static_cast<std::int8_t>(s);
      if (!named) args.scalars[s] = schema.scalars[s].default_value;
    }
  const int wanted = form.num_outputs;
  if (call.outputs && call.num_outputs < wanted)
    errors::wrong_outputs(form, wanted, call.num_outputs);
  int output = 0;
  for (int r = 0; r < schema.num_results; ++r) {
    if (args.received(r)) {
      const std::int8_t source = form.inplace->result_source[r];  // may be an optional argument
      if (!args.has(source)) errors::missing_argument(form, {true, source});
      args.result(r) = args.tensors[source];
      continue;
    }
    args.result(r).data = nullptr;
    if (call.outputs && call.outputs[output].data)
      read_tensor(form, schema.tensors[schema.num_inputs + r].name, call.outputs[output],
                  args.result(r));
    ++output;
  }
  // Allocated or given, every result is present when a kernel runs.
  args.present |= ((1u << schema.num_results) - 1) << schema.num_inputs;
}

}  // namespace dlblas
