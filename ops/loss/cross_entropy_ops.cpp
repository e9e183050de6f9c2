// See cross_entropy_ops.hpp.
#include "ops/loss/cross_entropy_ops.hpp"

#include "core/error.hpp"
#include "ops/loss/cross_entropy.hpp"

namespace dlblas::loss {
namespace {

[[noreturn]] void refuse(const Args& args, const char* argument, const std::string& expected) {
  throw Error(ErrorKind::kArgument, text(args.schema->name, ": ", argument, " ", expected),
              {.op = args.schema->name, .argument = argument});
}

}  // namespace

void check_cross_entropy(const Args& args, int weight, int weight_sum) {
  const double smoothing = args.scalars[kSmoothing].f, cap = args.scalars[kSoftcap].f;
  if (!(smoothing >= 0 && smoothing <= 1))
    refuse(args, "label_smoothing", text("is out of range; expected 0 … 1, got ", smoothing));
  if (!(cap == 0 || (cap >= 1e-3 && cap <= 1e6)))
    refuse(args, "softcap", text("is out of range; expected 0 (none) or 1e-3 … 1e6, got ", cap));
  if (smoothing != 0 && args.has(weight) != args.has(weight_sum))
    refuse(args, "weight_sum",
           "belongs to class_weight where labels are smoothed; expected both or neither");
}

void fill_cross_entropy(const Args& args, RowCall& call) {
  const double smoothing = args.scalars[kSmoothing].f, cap = args.scalars[kSoftcap].f;
  call.f[kKept] = static_cast<float>(1 - smoothing);
  call.f[kShare] = static_cast<float>(smoothing / static_cast<double>(args.letters[kCrossC]));
  call.f[kCap] = static_cast<float>(cap);
  call.f[kInverseCap] = cap != 0 ? static_cast<float>(1 / cap) : 0;
  call.n[0] = args.scalars[kIgnoreIndex].i;
}

void choose_cross_entropy(const Problem& problem, int weight, int dlse, std::int32_t* options) {
  options[kSmooths] = problem.scalars[kSmoothing] != 0;
  options[kCaps] = problem.scalars[kSoftcap] != 0;
  options[kWeighted] = problem.tensors[weight].dtype != DType::kAbsent;
  options[kHasDlse] = dlse >= 0 && problem.tensors[dlse].dtype != DType::kAbsent;
}

}  // namespace dlblas::loss
