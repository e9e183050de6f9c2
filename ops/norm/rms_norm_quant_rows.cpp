// Scalars, checks and bounds of rms_norm with 8-bit results.
// Flow: call > validate > [select] > [compile] > [launch]. Read next:
// ops/norm/rms_norm_quant_ref.hpp (the errors that bounds are made of).
#include "ops/norm/rms_norm_quant_rows.hpp"

#include <cmath>

#include "core/error.hpp"
#include "ops/check_eps.hpp"
#include "ops/norm/rms_norm_quant_ref.hpp"

namespace dlblas::norm {
namespace {

void fill(const Args& args, RowCall& call) {
  fill_layer_norm(args.scalars[kEps].f, args.letters[kC], call);
  call.f[4] = static_cast<float>(args.scalars[kWeightOffset].f);
  call.f[5] = static_cast<float>(quant::largest_of(args.result(kCodesQ).dtype));
}

/// weight_offset is the first of the key's scalars.
void choose(const Problem& problem, std::int32_t* options) { options[0] = problem.scalars[0] != 0; }

constexpr double kLargest = 1e30;  // no rate: of weight_offset

Bound bound(const Problem&, int judged) {
  return judged == kCodesQ       ? quant::quantize_bound(judged)
         : judged == kCodesScale ? Bound{.magnitude = kRounding, .value = kRounding}
                                 : kHiddenBound;
}
Bound static_bound(const Problem&, int judged) {
  return judged == kCodesQ ? quant::quantize_bound(judged) : kHiddenBound;
}

}  // namespace

void check_codes(const Args& args) {
  const char* op = args.schema->name.c_str();
  const double offset = args.scalars[kWeightOffset].f;
  check_eps<kEps, true>(args);
  if (!(std::abs(offset) <= kLargest))
    throw Error(ErrorKind::kArgument,
                text(op, ": weight_offset is out of range; expected -1e30 … 1e30, got ", offset),
                {.op = op, .argument = "weight_offset"});
}

void add_codes_implementations(OperatorDef& def, const CodesOp& op) {
  def.bound = op.static_scale ? static_bound : bound;
  def.check = check_codes;
  def.work_per_row = [](const Problem& problem) {
    return 16.0 * static_cast<double>(problem.dims[kC]);
  };
  const bool adds = op.operands.size() > 4;
  kernels::add_row_implementations(def, {.program = op.program,
                                         .width = "C",
                                         .operands = op.operands,
                                         .reduces = true,
                                         .group = op.grouped ? "group" : "",
                                         .reduces_groups = op.grouped,
                                         .registers = adds              ? 36
                                                      : op.static_scale ? 30
                                                                        : 28,
                                         .access_registers = adds ? 18 : 9,
                                         .kept = {"x"},
                                         .fill = fill,
                                         .choose = choose});
}

}  // namespace dlblas::norm
