// oneDNN's matmul with steps behind its sums, as a rival: scales, bias, activation and residual in
// one primitive. In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/onednn_product.hpp,
// linear_residual_ref.hpp (what it computes).
#include <algorithm>

#include "core/source_hash.hpp"
#include "cpu/onednn.hpp"
#include "kernels/product.hpp"
#include "ops/gemm/linear_residual/linear_residual.hpp"
#include "ops/gemm/onednn_rival.hpp"

namespace dlblas::gemm {
namespace {

/// The tensors behind the sums, of a call or as a problem's typical ones: type kAbsent if not
/// given.
struct After {
  GemmMatrix row_scale, column_scale, bias, residual;
  bool in_place;  // the residual is the result
  Activation activation;
};

/// Sets the product's bias, or the steps that the formula has behind the sum.
void then(OneDnnProduct& p, const After& after) {
  const auto given = [](const GemmMatrix& m) { return m.type != DType::kAbsent; };
  const bool scaled = given(after.row_scale) || given(after.column_scale);
  for (const GemmMatrix& scale : {after.row_scale, after.column_scale})
    if (given(scale)) p.then({.kind = OneDnnPost::kMultiply, .with = scale});
  GemmMatrix& bias = p.operands[OneDnnProduct::kBias];
  bias = after.bias;
  bias.row = p.n;
  if (scaled && given(after.bias)) {
    p.then({.kind = OneDnnPost::kAdd, .with = after.bias});
    bias = {nullptr, 0, 0, DType::kAbsent};
  }
  then_activate(p, after.activation);
  if (!given(after.residual)) return;
  if (after.in_place)
    p.then({.kind = OneDnnPost::kAddOut});
  else
    p.then({.kind = OneDnnPost::kAdd, .with = after.residual});
}

constexpr GemmMatrix kNone = {nullptr, 0, 0, DType::kAbsent};

GemmMatrix rows_of(const Args& args, int tensor) {
  if (!args.has(tensor)) return kNone;
  const TensorView m = kernels::flat_rows(args.tensors[tensor]);
  return {m.data, m.strides[0], m.strides[1], m.dtype};
}
GemmMatrix columns_of(const Args& args, int tensor) {
  if (!args.has(tensor)) return kNone;
  const TensorView& t = args.tensors[tensor];
  return {t.data, 0, t.shape[0] == 1 ? 1 : t.strides[0], t.dtype};
}

int step(const Args& args, const Context& context, const Kernel&, void*) {
  OneDnnProduct p{args.letters[kLinearT], args.letters[kLinearN], args.letters[kLinearK]};
  if (p.m == 0 || p.n == 0) return 0;
  const GemmMatrix w = rows_of(args, kLinearWeight);
  p.operands[OneDnnProduct::kA] = rows_of(args, kLinearX);
  p.operands[OneDnnProduct::kB] = {w.data, w.col, w.row, w.type};
  p.operands[OneDnnProduct::kOut] = rows_of(args, kLinearY);
  GemmMatrix row_scale = rows_of(args, kLinearRowScale);
  row_scale.col = 0;
  const GemmMatrix residual = rows_of(args, kLinearResidual);
  then(p, {row_scale, columns_of(args, kLinearColumnScale), columns_of(args, kLinearBias), residual,
           residual.data == p.operands[OneDnnProduct::kOut].data,
           static_cast<Activation>(args.scalars[kLinearActivation].i)});
  return onednn_multiply(p, context);
}

/// The product that a Problem describes, for operands without gaps.
OneDnnProduct typical(const Problem& problem) {
  const TensorTraits* const t = problem.tensors;
  OneDnnProduct p{problem.dims[kLinearT], problem.dims[kLinearN], problem.dims[kLinearK]};
  set_typical(p, OneDnnProduct::kA, t[kLinearX]);
  TensorTraits weight = t[kLinearWeight];
  const bool turned = weight.layout == Layout::kTransposed;
  weight.layout = turned ? Layout::kContiguous : Layout::kTransposed;
  set_typical(p, OneDnnProduct::kB, weight);
  set_typical(p, OneDnnProduct::kOut, t[kLinearY]);
  then(p, {{nullptr, 1, 0, t[kLinearRowScale].dtype},
           {nullptr, 0, 1, t[kLinearColumnScale].dtype},
           {nullptr, 0, 1, t[kLinearBias].dtype},
           {nullptr, p.n, 1, t[kLinearResidual].dtype},
           t[kLinearY].alias != 0,
           static_cast<Activation>(problem.scalars[kLinearActivation])});
  return p;
}

bool by_rows(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (const Support takes = onednn_takes(p, {kLinearX, kLinearWeight}); !takes) return takes;
  for (const int i : {int{kLinearY}, int{kLinearResidual}})
    if (p.tensors[i].dtype != DType::kAbsent && !by_rows(p.tensors[i]))
      return Support::no("rows of {} are not contiguous: oneDNN would be slow", tensor(i));
  if (const Support sums = onednn_adds(p.dims[kLinearK], p.tensors[kLinearX]); !sums) return sums;
  const auto activation = static_cast<Activation>(p.scalars[kLinearActivation]);
  if (const Support keeps = onednn_activates(activation); !keeps) return keeps;
  return onednn_supports(typical(p), std::max<int>(1, p.threads));
}

/// As matmul's, without the pass of `composed` over the sums. Zen 5, one thread, against the best
/// of the others: 512×1024×1024 bf16 0.96, f32 1.01; 512×4096×1024 0.99, 1.01. Few rows are slower,
/// since their weight is packed: 16×4096×4096 bf16 1.36, f32 1.1.
double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto size = [&p](int letter) { return static_cast<double>(p.dims[letter]); };
  const double few_rows = p.dims[kLinearT] <= kMaxDotRows ? 1.5 : 1;
  return few_rows *
         onednn_ms(q, size(kLinearT), size(kLinearN), size(kLinearK), p.tensors[kLinearX].dtype);
}

struct NoState {};

}  // namespace

Implementation linear_residual_onednn() {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/gemm/linear_residual/linear_residual_onednn.cpp">();
  i.version = onednn_version;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = [](const Query&, const Config&) { return make_kernel({step}, NoState{}); };
  return i;
}

}  // namespace dlblas::gemm
