// filter_rows: schema, reference and judge; all sampling operators share the kernels.
// Read next: ops/sampling/law.hpp (what it computes), ops/sampling/sampling.cuh (how).
#include "ops/sampling/sampling.hpp"

namespace dlblas::sampling {
namespace {

constexpr SamplingOp kOp = {.renorm = 1, .key_renorm = 1};

}  // namespace

OperatorDef filter_rows();
OperatorDef filter_rows() {
  OperatorDef def;
  def.schema =
      "filter_rows(x: f[*T, V] ~ positive if probs, top_k: index[*T]? ~ index<=V, "
      "top_p: f32[*T]? ~ positive, min_p: f32[*T]? ~ positive, probs: bool = false, "
      "renorm: bool = false) -> y: like(x)[*T, V] where T: bucket(tokens)";
  def.formula = "y = x where it is kept, or its share of what is kept; elsewhere −inf, or 0";
  def.letters = {"T", "V"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) { sampling_reference(kOp, args, rows, num_rows, out); };
  def.judge = [](const Judgement& j, Finding* found) { sampling_judge(kOp, j, found); };
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kX].dtype);
    return Bound{
        .magnitude = kRounding * (1 + out.eps), .value = out.eps / 2, .absolute = out.tiny};
  };
  add_sampling(def, kOp);
  return def;
}

}  // namespace dlblas::sampling
