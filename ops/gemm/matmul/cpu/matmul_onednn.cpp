// oneDNN's matmul as a rival on equal terms: same checks, same search, same oracle.
// In: a Problem; at launch the exact sizes and strides. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/onednn_product.hpp.
#include <algorithm>

#include "core/source_hash.hpp"
#include "cpu/gemm/onednn_product.hpp"
#include "cpu/onednn.hpp"
#include "ops/gemm/matmul/matmul.hpp"
#include "ops/gemm/onednn_rival.hpp"

namespace dlblas::gemm {
namespace {

int step(const Args& args, const Context& context, const Kernel&, void*) {
  const MatmulParams given = matmul_params(args);
  if (given.m == 0 || given.n == 0) return 0;
  OneDnnProduct p{given.m, given.n, given.k, {given.a, given.b, given.bias, given.out}};
  GemmMatrix& bias = p.operands[OneDnnProduct::kBias];
  bias.row = p.n;
  if (!bias.data) bias.type = DType::kAbsent;
  then_activate(p, given.activation);
  return onednn_multiply(p, context);
}

/// The product that a Problem describes, for operands without gaps.
OneDnnProduct typical(const Problem& problem) {
  OneDnnProduct p{problem.dims[kM], problem.dims[kN], problem.dims[kK]};
  set_typical(p, OneDnnProduct::kA, problem.tensors[kA]);
  set_typical(p, OneDnnProduct::kB, problem.tensors[kB]);
  set_typical(p, OneDnnProduct::kBias, problem.tensors[kBias]);
  set_typical(p, OneDnnProduct::kOut, problem.tensors[kOut]);
  then_activate(p, static_cast<Activation>(problem.scalars[kActivation]));
  return p;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (const Support takes = onednn_takes(p, {kA, kB, kOut}); !takes) return takes;
  if (const Support sums = onednn_adds(p.dims[kK], p.tensors[kA]); !sums) return sums;
  const auto activation = static_cast<Activation>(p.scalars[kActivation]);
  if (const Support keeps = onednn_activates(activation); !keeps) return keeps;
  return onednn_supports(typical(p), std::max<int>(1, p.threads));
}

double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto size = [&p](int letter) { return static_cast<double>(p.dims[letter]); };
  return onednn_ms(q, size(kM), size(kN), size(kK), p.tensors[kA].dtype);
}

struct NoState {};

Kernel prepare(const Query&, const Config&) { return make_kernel({step}, NoState{}); }

}  // namespace

void append_onednn(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/gemm/matmul/cpu/matmul_onednn.cpp">();
  i.version = onednn_version;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = prepare;
  to.push_back(i);
}

}  // namespace dlblas::gemm
