// sample_rows: schema, reference and judge; all sampling operators share the kernels.
// Read next: ops/sampling/law.hpp (what it computes), ops/sampling/sampling.cuh (how).
#include "ops/sampling/sampling.hpp"

namespace dlblas::sampling {
namespace {

constexpr SamplingOp kOp = {.samples = true,
                            .temperature = 1,
                            .top_k = 2,
                            .top_p = 3,
                            .min_p = 4,
                            .seeds = 5,
                            .offsets = 6,
                            .y = 7,
                            .seed = 0,
                            .offset = 1,
                            .probs = 2};

}  // namespace

OperatorDef sample_rows();
OperatorDef sample_rows() {
  OperatorDef def;
  def.schema =
      "sample_rows(x: f[*T, V] ~ positive if probs, temperature: f32[*T]? ~ positive, "
      "top_k: index[*T]? ~ index<=V, "
      "top_p: f32[*T]? ~ positive, min_p: f32[*T]? ~ positive, "
      "seeds: i64[*T]? ~ index<2147483647, offsets: i64[*T]? ~ index<2147483647, "
      "seed: int = 0 runtime, offset: int = 0 runtime, probs: bool = false) -> ids: i32[*T, 1] "
      "where T: bucket(tokens)";
  def.formula =
      "ids = the first column whose sum of kept softmax(x / temperature) is above u of all of it";
  def.letters = {"T", "V"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) { sampling_reference(kOp, args, rows, num_rows, out); };
  def.judge = [](const Judgement& j, Finding* found) { sampling_judge(kOp, j, found); };
  def.bound = [](const Problem&, int) { return Bound{}; };
  add_sampling(def, kOp);
  return def;
}

}  // namespace dlblas::sampling
