// The oracle through the C ABI: reference values, and a verdict on somebody's results.
// In: the functional form's arguments, the inputs as they were before the call. Read next:
// tuner/verify.hpp.
#include <algorithm>

#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"
#include "dispatch/complain.hpp"
#include "tuner/cuda_judge.hpp"
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

// Where the reference is to write.
void check_places(const Operator& op, std::int64_t num_rows, double* const* values,
                  double* const* magnitudes, const void* bounds) {
  const auto need = [&](const void* place, const char* argument) {
    if (!place)
      refuse(ErrorKind::kArgument, op.schema.name,
             {argument, "is null", text("room for ", op.schema.num_results, " results"), "NULL"});
  };
  need(bounds, "bounds");
  need(values, "values");
  need(magnitudes, "magnitudes");
  for (int r = 0; num_rows > 0 && r < op.schema.num_results; ++r)
    need(values[r], "values"), need(magnitudes[r], "magnitudes");
}

// The reference reads them. The questions about a call do without.
void require_inputs(const Args& args) {
  const Schema& schema = *args.schema;
  for (int i = 0; i < schema.num_inputs; ++i)
    if (args.has(i) && !args.tensors[i].data && args.tensors[i].numel() > 0)
      complain::no_data(schema, args, i);
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
    const BoundCall bound_call(handle, call, nullptr);
    const Operator& op = bound_call.op;
    require_functional(bound_call.form);
    require_inputs(bound_call.args);
    check_rows(op, bound_call.args, rows, num_rows);
    check_places(op, num_rows, values, magnitudes, bounds);
    OracleOut out[kMaxResults];
    for (int r = 0; r < op.schema.num_results; ++r) {
      out[r] = {values[r], magnitudes[r]};
      const Bound bound = op.def.bound(bound_call.problem, r);
      bounds[r][0] = bound.magnitude, bounds[r][1] = bound.value, bounds[r][2] = bound.absolute;
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
    const bool on_host = problem.device_type == DeviceType::kCpu;
    const Verdict v = (on_host ? verify : verify_on_device)(
        op, problem, args, {rows, rows + num_rows}, side.context());
    *verdict = {verdict->size, v.worst,       v.relative, v.wrong,
                v.checked,     v.first_wrong, v.result,   v.mistrusted};
  });
}

}  // extern "C"
