// The oracle through the C ABI: reference values, and a verdict on given results.
// In: the functional form's arguments, the inputs as they were before the call. Read next:
// tuner/verify.hpp.
#include <algorithm>

#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"
#include "core/plain_floats.hpp"
#include "dispatch/errors.hpp"
#include "tuner/cuda_verifier.hpp"
#include "tuner/verify.hpp"

namespace dlblas {
namespace {

void check_rows(const Operator& op, const Args& args, const std::int64_t* rows,
                std::int64_t num_rows) {
  const auto no = [&](const char* argument, const char* problem, const std::string& expected,
                      const std::string& got) {
    refuse(ErrorKind::kArgument, op.schema.name, {argument, problem, expected, got});
  };
  const std::int64_t count = count_rows(args);
  if (num_rows < 0)
    no("num_rows", "is negative", "0 or the number of rows listed", std::to_string(num_rows));
  if (num_rows > 0 && !rows) no("rows", "is null", text(num_rows, " indices"), "NULL");
  for (std::int64_t i = 0; i < num_rows; ++i)
    if (rows[i] < 0 || rows[i] >= count)
      no("rows", "has an index out of range", text("0 to ", count - 1), std::to_string(rows[i]));
}

// Checks that the reference has memory to write to.
void check_places(const Args& args, std::int64_t num_rows, double* const* values,
                  double* const* magnitudes, const void* bounds) {
  const Schema& schema = *args.schema;
  const auto need = [&](const void* place, const char* argument) {
    if (!place)
      refuse(ErrorKind::kArgument, schema.name,
             {argument, "is null", text("room for ", schema.num_judged(), " tensors"), "NULL"});
  };
  need(bounds, "bounds");
  need(values, "values");
  need(magnitudes, "magnitudes");
  for (int j = 0; num_rows > 0 && j < schema.num_judged(); ++j)
    if (args.judges(j)) need(values[j], "values"), need(magnitudes[j], "magnitudes");
}

// Reads what the written inputs hold after the call: they follow the results in args->outputs.
void read_written(const Schema& schema, const dlblas_args& call, Args& after) {
  for (int j = schema.num_results; j < schema.num_judged(); ++j) {
    if (!after.judges(j)) continue;
    const TensorSpec& spec = schema.tensors[schema.judged[j]];
    TensorView& t = after.tensors[schema.judged[j]];
    if (call.num_outputs <= j || !call.outputs || (!call.outputs[j].data && t.numel() > 0))
      refuse(ErrorKind::kArgument, schema.name,
             {spec.name, "is missing among the outputs", "what the call left in it", "nothing"});
    const dlblas_tensor& from = call.outputs[j];
    const bool alike =
        from.ndim == t.rank &&
        dtype_from_dlpack(from.dtype.code, from.dtype.bits, from.dtype.lanes) == t.dtype &&
        from.device.type == static_cast<std::int32_t>(t.device.type) &&
        std::equal(t.shape, t.shape + t.rank, from.shape);
    if (!alike)
      refuse(ErrorKind::kArgument, schema.name,
             {spec.name, "is another tensor among the outputs",
              "the shape, dtype and device that it has among the inputs", "others"});
    t.data = static_cast<char*>(from.data) + from.byte_offset;
    std::int64_t stride = 1;
    for (int i = t.rank - 1; i >= 0; --i) {
      t.strides[i] = from.strides ? from.strides[i] : stride;
      stride *= t.shape[i];
    }
  }
}

// The reference reads the inputs' data. Queries about a call do not need it.
void require_inputs(const Args& args) {
  const Schema& schema = *args.schema;
  for (int i = 0; i < schema.num_inputs; ++i)
    if (args.has(i) && !args.tensors[i].data && args.tensors[i].numel() > 0)
      errors::no_data(schema, args, i);
}

void require_functional(const Form& form) {
  if (form.inplace)
    throw Error(
        ErrorKind::kArgument,
        text(form.name, ": form is in place; expected ", form.op->schema.name, ", got ", form.name,
             "; give the inputs as they were before the call, and the results as outputs"),
        {.op = std::string(form.name), .argument = "form"});
}

}  // namespace
}  // namespace dlblas

extern "C" {

using namespace dlblas;

dlblas_status dlblas_reference(dlblas_op_t handle, const dlblas_args* call, const int64_t* rows,
                               int64_t num_rows, double* const* values, double* const* magnitudes,
                               double (*bounds)[3]) {
  return guarded([&] {
    const PlainFloats plain;
    const BoundCall bound_call(handle, call, nullptr);
    const Operator& op = bound_call.op;
    require_functional(bound_call.form);
    require_inputs(bound_call.args);
    check_rows(op, bound_call.args, rows, num_rows);
    check_places(bound_call.args, num_rows, values, magnitudes, bounds);
    OracleOut out[kMaxJudged] = {};
    for (int j = 0; j < op.schema.num_judged(); ++j) {
      if (!bound_call.args.judges(j)) continue;
      out[j] = {values[j], magnitudes[j]};
      // 0: a magnitude that the oracle leaves unwritten means an exact element.
      if (num_rows > 0)
        std::fill_n(magnitudes[j], num_rows * row_width(bound_call.args.judged_rows(j)), 0.0);
      const Bound bound = op.def.bound(bound_call.problem, j);
      bounds[j][0] = bound.magnitude, bounds[j][1] = bound.value, bounds[j][2] = bound.absolute;
    }
    if (num_rows == 0) return;
    if (bound_call.problem.device_type == DeviceType::kCpu)
      return op.def.reference(bound_call.args, rows, num_rows, out);
    CudaMemory memory(bound_call.problem.device_index, bound_call.side.context().stream);
    op.def.reference(HostCopy(bound_call.args, memory).args(), rows, num_rows, out);
  });
}

dlblas_status dlblas_verify(dlblas_op_t handle, const dlblas_args* call, const int64_t* rows,
                            int64_t num_rows, dlblas_verdict* verdict) {
  return guarded([&] {
    if (!verdict || verdict->size < sizeof(dlblas_verdict))
      refuse(ErrorKind::kArgument, "dlblas",
             {"verdict", "has a wrong size", text("size = ", sizeof(dlblas_verdict)),
              verdict ? text(verdict->size) : "NULL"});
    const PlainFloats plain;
    const BoundCall bound_call(handle, call, nullptr);
    const auto& [form, op, side, args, problem] = bound_call;
    require_functional(form);
    require_inputs(args);
    for (int r = 0; r < op.schema.num_results; ++r)
      if (!args.result(r).data)
        refuse(ErrorKind::kArgument, op.schema.name,
               {op.schema.tensors[op.schema.num_inputs + r].name, "is missing",
                "the result to verify", "nothing"});
    check_rows(op, args, rows, num_rows);
    Args after = args;
    read_written(op.schema, *call, after);
    const std::vector<std::int64_t> chosen(rows, rows + num_rows);
    const Verdict v = problem.device_type == DeviceType::kCpu
                          ? verify(op, problem, args, after, chosen, side.context())
                          : verify_on_device(op, problem, args, after, chosen, side.context());
    *verdict = {verdict->size, v.worst,       v.relative, v.wrong,
                v.checked,     v.first_wrong, v.result,   v.mistrusted};
  });
}

}  // extern "C"
