// oneDNN's products as a rival: the sums of the gate with their activation, in f32, then those of
// the other weight, which the first multiply before the only rounding. In: a Problem, later the
// Args of a call. Out: a Kernel of one step; the gate's values are in the workspace. Flow: call >
// validate > [select] > [compile] > [launch].  Read next: cpu/gemm/onednn_product.hpp.
#include <algorithm>

#include "core/source_hash.hpp"
#include "cpu/gemm/onednn_product.hpp"
#include "cpu/onednn.hpp"
#include "ops/mlp/gated_linear/gated_linear.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

GemmMatrix matrix_of(const TensorView& tensor) {
  const TensorView t = flat(tensor);
  return {t.data, t.strides[0], t.strides[1], t.dtype};
}

/// The product with one weight. The first's result are `values`; the second is multiplied by them.
OneDnnProduct product(bool first, std::int64_t m, std::int64_t n, std::int64_t k, void* values) {
  OneDnnProduct p{m, n, k};
  p.operands[OneDnnProduct::kBias].type = DType::kAbsent;
  const GemmMatrix gated = {values, n, 1, DType::kF32};
  if (first) {
    p.operands[OneDnnProduct::kOut] = gated;
    p.then({.kind = OneDnnPost::kEltwise, .function = OneDnn::kSwish, .alpha = 1});
  } else {
    p.then({.kind = OneDnnPost::kMultiply, .with = gated});
  }
  return p;
}

int step(const Args& args, const Context& context, const Kernel&, void* workspace) {
  const std::int64_t m = args.letters[kT], n = args.letters[kF], k = args.letters[kK];
  if (m == 0 || n == 0) return 0;
  for (const int weight : {kGate, kUp}) {
    OneDnnProduct p = product(weight == kGate, m, n, k, workspace);
    p.operands[OneDnnProduct::kA] = matrix_of(args.tensors[kX]);
    const GemmMatrix w = matrix_of(args.tensors[weight]);
    p.operands[OneDnnProduct::kB] = {w.data, w.col, w.row, w.type};
    if (weight == kUp) p.operands[OneDnnProduct::kOut] = matrix_of(args.tensors[kY]);
    if (const int failed = onednn_multiply(p, context)) return failed;
  }
  return 0;
}

OneDnnProduct typical(const Problem& problem, int weight) {
  OneDnnProduct p =
      product(weight == kGate, problem.dims[kT], problem.dims[kF], problem.dims[kK], nullptr);
  set_typical(p, OneDnnProduct::kA, problem.tensors[kX]);
  set_typical(p, OneDnnProduct::kB, exchanged(problem.tensors[weight]));
  if (weight == kUp) set_typical(p, OneDnnProduct::kOut, problem.tensors[kY]);
  return p;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (const Support takes = onednn_takes(p, {kX, kGate, kUp}); !takes) return takes;
  if (p.tensors[kY].layout != Layout::kContiguous)
    return Support::no("{} is not contiguous, as the gate's values are", tensor(kY));
  if (const Support sums = onednn_adds(p.dims[kK], p.tensors[kX]); !sums) return sums;
  if (p.scalars[kActivation] != static_cast<int>(Gate::kSilu))
    return Support::no("oneDNN's gelu and relu lose NaN or Inf: only silu is exact");
  const int threads = std::max<int>(1, p.threads);
  const Support gate = onednn_supports(typical(p, kGate), threads);
  return gate ? onednn_supports(typical(p, kUp), threads) : gate;
}

/// One pass over f32 values fewer than `composed`, which takes them in pieces that stay in caches:
/// 1.00 to 1.05 of its time on one thread of a Zen 5, so it is never the model's first choice.
double estimate(const Query& q, const Config&) { return 1.02 * composed_ms(q); }

struct NoState {};

}  // namespace

void append_onednn(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/mlp/gated_linear/gated_linear_onednn.cpp">();
  i.version = onednn_version;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = [](const Query& q, const Config&) {
    const Problem& p = q.problem;
    return make_kernel({step}, NoState{}, static_cast<std::size_t>(4 * p.dims[kT] * p.dims[kF]));
  };
  to.push_back(i);
}

}  // namespace dlblas::mlp
