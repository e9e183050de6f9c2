// swiglu_oai_and_mul: schema, oracle and program. Everything else is derived from these.
// Read next: swiglu_oai_and_mul_program.hpp (what it computes), swiglu_oai_and_mul_ref.hpp.
#include "core/error.hpp"
#include "ops/activation/gated_ops.hpp"
#include "ops/activation/swiglu_oai_and_mul/swiglu_oai_and_mul_ref.hpp"

namespace dlblas::activation {
namespace {

/// Refuses values outside [1e-6, high], and NaN.
void require(const Args& args, int scalar, const char* name, double high, const char* range) {
  const double value = args.scalars[scalar].f;
  if (value >= 1e-6 && value <= high) return;
  throw Error(
      ErrorKind::kArgument,
      text("swiglu_oai_and_mul: ", name, " is out of range; expected ", range, ", got ", value),
      {.op = "swiglu_oai_and_mul", .argument = name, .expected = range, .got = text(value)});
}

}  // namespace

OperatorDef swiglu_oai_and_mul();
OperatorDef swiglu_oai_and_mul() {
  OperatorDef def;
  def.family = "activation";
  def.schema =
      "swiglu_oai_and_mul(x: f[*T, 2F], alpha: float = 1.702, limit: float = 7, "
      "interleaved: bool = true) -> y: like(x)[*T, F] where T: bucket(tokens)";
  def.formula = "g = min(gate, limit); u = clamp(up, ±limit); y = (u + 1) · g · σ(alpha · g)";
  def.letters = {"T", "F"};
  kernels::set_row_oracle<swiglu_oai_and_mul_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) { return rounded_once(problem.tensors[kX].dtype); };
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kF]);
  };
  def.check = [](const Args& args) {
    require(args, kSwigluAlpha, "alpha", 1e6, "1e-6 … 1e6");
    require(args, kSwigluLimit, "limit", infinity(), "1e-6 or more");
  };
  kernels::RowOp op = {.program = "swiglu_oai_and_mul", .width = "F", .operands = {"x", "y"}};
  op.span = [](const Problem& problem) { return problem.scalars[0] != 0 ? 2 : 1; };
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[0] = problem.scalars[0] != 0;
  };
  op.fill = [](const Args& args, RowCall& call) {
    call.f[0] = static_cast<float>(args.scalars[kSwigluAlpha].f);
    call.f[1] = static_cast<float>(args.scalars[kSwigluLimit].f);
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::activation
