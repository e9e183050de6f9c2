// grouped_topk, the router of DeepSeek-V3: schema, oracle, judge and ordered implementations.
// Read next: grouped_topk_ref.cpp (what it computes), grouped_topk_cpu.cpp and
// grouped_topk_lanes.cuh (how).
#include "ops/moe/grouped_topk/grouped_topk.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"

namespace dlblas::moe {
namespace {

void refuse(const char* argument, const std::string& expected, const std::string& got) {
  throw Error(
      ErrorKind::kArgument,
      text("grouped_topk: ", argument, " is out of range; expected ", expected, ", got ", got),
      {"grouped_topk", argument, expected, got});
}

void check(const Args& args) {
  using namespace grouped;
  const std::int64_t experts = args.letters[kE], topk = args.letters[kTopk];
  const std::int64_t groups = args.scalars[kNumGroups].i, kept = args.scalars[kTopkGroups].i;
  if (groups < 1 || experts % groups != 0)
    refuse("num_groups", text("a divisor of ", experts, " experts"), text(groups));
  if (kept < 1 || kept > groups) refuse("topk_groups", text("1 … ", groups, " groups"), text(kept));
  const std::int64_t most = kept * (experts / groups);
  if (topk > most)
    refuse("topk", text("at most ", most, ": ", kept, " groups of ", experts / groups, " experts"),
           text(topk));
  const double scale = args.scalars[kScale].f;
  if (!(scale >= 1e-6 && scale <= 1e6)) refuse("scale", "1e-6 … 1e6", text(scale));
}

}  // namespace

OperatorDef grouped_topk();
OperatorDef grouped_topk() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "grouped_topk(logits: f[*T, E], bias: like(logits)|f32[E]?, topk: dim = 8, "
      "num_groups: int = 1, topk_groups: int = 1, renormalize: bool = true, scale: float = 1, "
      "scoring: \"sigmoid\"|\"softmax\" = \"sigmoid\", num_fused_shared_experts: dim = 0) "
      "-> (weights: f32[*T, topk+num_fused_shared_experts], ids: i32[*T, "
      "topk+num_fused_shared_experts]) where T: bucket(tokens)";
  def.formula =
      "s = scoring(logits); ids = the topk largest of s + bias in the topk_groups groups with the "
      "largest sums of two; weights = scale · s[ids], over their sum if renormalize";
  def.letters = {"T", "E", "topk", "num_fused_shared_experts"};
  def.reference = grouped::reference;
  def.judge = grouped::judge;
  def.bound = [](const Problem&, int judged) {
    return judged == 1 ? Bound{} : Bound{.magnitude = kRounding, .absolute = 0x1p-123};
  };
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return 48.0 * static_cast<double>(problem.dims[grouped::kE]);
  };
  def.implementations = grouped::cpu();
  for (Implementation& impl : grouped::cuda()) def.implementations.push_back(std::move(impl));
  return def;
}

}  // namespace dlblas::moe
