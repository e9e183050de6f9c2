// Gated products with 8-bit results as operators. Read next: gated_codes.hpp, gated_codes_ref.hpp.
#include "ops/activation/gated_codes_ops.hpp"

#include "ops/activation/gated_codes_ref.hpp"

namespace dlblas::activation {
namespace {

Bound bound(const Problem&, int judged) {
  return judged == kCodesQ ? quant::quantize_bound(judged)
                           : Bound{.magnitude = kRounding, .value = kRounding};
}

}  // namespace

OperatorDef gated_codes(std::string_view name, std::string_view schema, std::string_view formula,
                        CodesOf of) {
  OperatorDef def;
  def.family = "activation";
  def.schema = schema;
  def.formula = formula;
  def.letters = {"T", "F"};
  if (of == CodesOf::kGroup) def.letters.push_back("group");
  def.bound = bound;
  def.work_per_row = [](const Problem& problem) {
    return 20.0 * static_cast<double>(problem.dims[kF]);
  };
  const bool grouped = of == CodesOf::kGroup;
  kernels::add_row_implementations(
      def, {.program = name,
            .width = "F",
            .operands = {"x", "q", "scale"},
            .reduces = of == CodesOf::kToken,
            .group = grouped ? "group" : "",
            .reduces_groups = grouped,
            .registers = grouped ? 16 : 20,
            .access_registers = grouped ? 8 : 7,
            .fill = [](const Args& args, RowCall& call) {
              call.f[0] = static_cast<float>(quant::largest_of(args.result(kCodesQ).dtype));
            }});
  return def;
}

}  // namespace dlblas::activation
