// scale_rows, the second half of a norm whose statistic is known: schema, oracle and program.
// Everything else is derived from these. Read next: scale_rows_program.hpp (what it computes),
// scale_rows_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/norm/scale_rows/scale_rows_ref.hpp"

namespace dlblas::norm {
namespace {

enum ScaleRowsKey : int { kKeyOffset, kKeyCast };  // Problem::scalars

void choose(const Problem& problem, std::int32_t* options) {
  // An f32 value is already rounded to f32.
  options[1] = problem.tensors[kScaleRowsWeight].dtype != DType::kAbsent;
  options[0] = options[1] != 0 && problem.scalars[kKeyCast] != 0 &&
               problem.tensors[kScaleRowsX].dtype != DType::kF32;
  options[2] = options[1] != 0 && problem.scalars[kKeyOffset] != 0;
}

}  // namespace

OperatorDef scale_rows();
OperatorDef scale_rows() {
  OperatorDef def;
  def.family = "norm";
  def.schema =
      "scale_rows(x: f[*T, C], scale: f32[*T, 1], weight: like(x)|f32[C]?, *, "
      "weight_offset: float = 0 key(set=1), cast_before_weight: bool = false) -> y: like(x)[*T, C] "
      "where T: bucket(tokens)";
  def.inplace = {"scale_rows_(x!y, scale, weight, *, weight_offset, cast_before_weight)"};
  def.formula = "y = x · scale · (weight + weight_offset)";
  def.letters = {"T", "C"};
  kernels::set_row_oracle<scale_rows_row<kernels::HostRow>>(def);
  def.bound = [](const Problem&, int) { return kHiddenBound; };
  def.work_per_row = [](const Problem& problem) {
    return 2.0 * static_cast<double>(problem.dims[kScaleRowsC]);
  };
  kernels::add_row_implementations(
      def, {.program = "scale_rows",
            .width = "C",
            .operands = {"x", "scale", "weight", "y"},
            .registers = 24,
            .access_registers = 8,
            .fill =
                [](const Args& args, RowCall& call) {
                  call.f[0] = static_cast<float>(args.scalars[kScaleRowsOffset].f);
                },
            .choose = choose});
  return def;
}

}  // namespace dlblas::norm
