// oneDNN's batched product as a rival: one primitive for all matrices. In: a Problem, later the
// Args of a call. Out: a Kernel of one step. Flow: call > validate > [select] > [compile] >
// [launch].  Read next: cpu/gemm/onednn_product.hpp, ops/gemm/matmul/cpu/matmul_onednn.cpp.
#include <algorithm>

#include "core/source_hash.hpp"
#include "cpu/gemm/onednn_product.hpp"
#include "cpu/onednn.hpp"
#include "ops/gemm/batched/batched.hpp"
#include "ops/gemm/onednn_rival.hpp"

namespace dlblas::gemm {
namespace {

Activation activation_of(const Problem& p) {
  return static_cast<Activation>(p.scalars[kActivation]);
}

template <bool kByRows>
int step(const Args& args, const Context& context, const Kernel&, void*) {
  const MatmulParams one = matmul_params(matrix_args({kByRows}, args, 0));
  if (args.letters[kBatch] == 0 || one.m == 0 || one.n == 0) return 0;
  OneDnnProduct p{one.m, one.n, one.k, {one.a, one.b, one.bias, one.out}};
  p.batch = args.letters[kBatch];
  for (const auto& [operand, tensor] :
       {std::pair{OneDnnProduct::kA, kA}, {OneDnnProduct::kB, kB}, {OneDnnProduct::kOut, kOut}})
    p.apart[operand] = batch_stride(args.tensors[tensor]);
  GemmMatrix& bias = p.operands[OneDnnProduct::kBias];
  bias.row = p.n;
  if (!bias.data) bias.type = DType::kAbsent;
  then_activate(p, one.activation);
  return onednn_multiply(p, context);
}

/// The product that a Problem describes, for operands without gaps.
OneDnnProduct typical(const BatchedOp& op, const Problem& problem) {
  const Problem one = matrix_problem(op, problem);
  OneDnnProduct p{one.dims[kM], one.dims[kN], one.dims[kK]};
  p.batch = problem.dims[kBatch];
  for (const auto& [operand, tensor] : {std::pair{OneDnnProduct::kA, kA},
                                        {OneDnnProduct::kB, kB},
                                        {OneDnnProduct::kBias, kBias},
                                        {OneDnnProduct::kOut, kOut}}) {
    set_typical(p, operand, one.tensors[tensor]);
    if (problem.tensors[tensor].layout != Layout::kRowsOuter || p.batch <= 1) continue;
    GemmMatrix& m = p.operands[operand];  // heads of a projection: rows of all matrices in turn
    std::int64_t& line = m.col == 1 ? m.row : m.col;
    p.apart[operand] = line, line *= p.batch;
  }
  then_activate(p, activation_of(problem));
  return p;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (const Support takes = onednn_takes(p, {kA, kB, kOut}); !takes) return takes;
  if (const Support sums = onednn_adds(p.dims[kBatchedK], p.tensors[kA]); !sums) return sums;
  if (const Support keeps = onednn_activates(activation_of(p)); !keeps) return keeps;
  if (p.dims[kBatch] == 0) return Support::no("a dimension is zero");
  return onednn_supports(typical(q.user<BatchedOp>(), p), std::max<int>(1, p.threads));
}

/// Zen 5, one thread, against cpu_each (docs/notes/matmul_kernels.md): from 16 rows on, and for
/// small matrices, never more than 1.06 of its time, and down to a ninth; fewer rows of large ones
/// take up to twice as long. On other CPUs it was not measured.
double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  constexpr std::int64_t kManyRows = 16, kSmall = 4096;
  constexpr double kMatrix = 5e-5;  // ms beside the product: 4096×8×8×8 in f32
  const bool measured = kernels::multiplies_pairs(q.device, DType::kBF16);
  const bool wins = p.dims[kBatchedM] >= kManyRows ||
                    p.dims[kBatchedK] * p.dims[kBatchedN] <= kSmall * p.dims[kBatchedM];
  const auto& op = q.user<BatchedOp>();
  return measured && wins ? each_ms(op, q, kMatrix) : 1.5 * each_ms(op, q);
}

struct NoState {};

}  // namespace

Implementation batched_onednn(const BatchedOp& op) {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/gemm/batched/batched_onednn.cpp">();
  i.version = onednn_version;
  i.user = &op;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = [](const Query& q, const Config&) {
    return make_kernel({q.user<BatchedOp>().by_rows ? step<true> : step<false>}, NoState{});
  };
  return i;
}

}  // namespace dlblas::gemm
