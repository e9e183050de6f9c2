// What the batched products share: out[b] = act(a[b] · m[b] + bias), where m[b] is b[b] or its
// transpose. Their tensors and scalars are matmul's, so each matrix of a batch is a problem, or a
// call, of matmul.
// Read next: batched_each.cpp, batched_cuda.cpp.
#pragma once

#include <vector>

#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {

enum BatchedLetter : int { kBatch, kBatchedM, kBatchedK, kBatchedN };

/// by_rows: b is [B, N, K], so its rows are the product's columns (a linear layer's weight, keys).
struct BatchedOp {
  bool by_rows;
};

/// Matrix i of a tensor [B, rows, columns], or its transpose.
TensorView matrix_at(const TensorView& t, std::int64_t i, bool transposed);
/// Elements from one matrix to the next; 0 where there is only one.
std::int64_t batch_stride(const TensorView& t);
/// Matrix i as a call of matmul.
Args matrix_args(const BatchedOp& op, const Args& args, std::int64_t i);
/// Each matrix as a problem of matmul, as the tensor-core forms see it: rows at a stride.
Problem matrix_problem(const BatchedOp& op, const Problem& problem);

/// One matmul call per matrix; its predicted time on a CPU, where a call takes `call` ms beside the
/// product (1024×32×32×32 f32, one thread of a Zen 5, November 2026).
double each_ms(const BatchedOp& op, const Query& q, double call = 4e-4);
Implementation batched_each(const BatchedOp& op, DeviceType backend);
/// One launch for all matrices.
std::vector<Implementation> batched_cuda(const BatchedOp& op);
/// The loops of matmul on CPUs, with the batch divided among the threads.
std::vector<Implementation> batched_cpu(const BatchedOp& op);
/// oneDNN, the rival on CPUs: one call for all matrices.
Implementation batched_onednn(const BatchedOp& op);
/// cuBLASLt, the rival; and in TF32, for calls that allow it.
Implementation batched_cublaslt(const BatchedOp& op);
Implementation batched_cublaslt_tf32(const BatchedOp& op);

/// Fills in everything but the schema and the formula.
template <bool kByRows>
void add_batched(OperatorDef& def) {
  static constexpr BatchedOp kOp = {kByRows};
  def.family = "gemm";
  def.letters = {"B", "M", "K", "N"};
  // Result rows are numbered over [b, m]: one matrix after the other.
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) {
    const std::int64_t m = args.letters[kBatchedM], n = args.letters[kBatchedN];
    std::vector<std::int64_t> own;
    for (std::int64_t first = 0; first < num_rows;) {
      const std::int64_t batch = rows[first] / m;
      own.clear();
      for (std::int64_t i = first; i < num_rows && rows[i] / m == batch; ++i)
        own.push_back(rows[i] % m);
      OracleOut part = {out->value + first * n, out->magnitude + first * n};
      const auto count = static_cast<std::int64_t>(own.size());
      matmul_reference(matrix_args(kOp, args, batch), own.data(), count, &part);
      first += count;
    }
  };
  def.bound = [](const Problem& p, int judged) {
    return matmul_bound(matrix_problem(kOp, p), judged);
  };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kBatchedK]) * static_cast<double>(p.dims[kBatchedN]);
  };
  def.implementations = batched_cuda(kOp);
  def.implementations.push_back(batched_cublaslt(kOp));
  def.implementations.push_back(batched_cublaslt_tf32(kOp));
  def.implementations.push_back(batched_each(kOp, DeviceType::kCuda));
  for (const Implementation& impl : batched_cpu(kOp)) def.implementations.push_back(impl);
  def.implementations.push_back(batched_each(kOp, DeviceType::kCpu));
  def.implementations.push_back(batched_onednn(kOp));
}

}  // namespace dlblas::gemm
