// batched_scaled_mm: schema, oracle and bound, and which implementations there are.
// Read next: batched_scaled_mm.hpp, ops/gemm/scaled/scaled_ref.hpp (what a matrix's elements are).
#include "ops/gemm/batched_scaled_mm/batched_scaled_mm.hpp"

#include "ops/gemm/scaled/scaled_reference.hpp"

namespace dlblas::gemm {
namespace {

/// Result rows are numbered over [b, m]: one matrix after the other.
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const std::int64_t m = args.letters[kBatchedM], n = args.letters[kBatchedN];
  std::vector<std::int64_t> own;
  for (std::int64_t first = 0; first < num_rows;) {
    const std::int64_t batch = rows[first] / m;
    own.clear();
    for (std::int64_t i = first; i < num_rows && rows[i] / m == batch; ++i)
      own.push_back(rows[i] % m);
    OracleOut part = {out->value + first * n, out->magnitude + first * n};
    const auto count = static_cast<std::int64_t>(own.size());
    scaled::channel_reference(scaled::scaled_matrix_args(args, batch), own.data(), count, &part);
    first += count;
  }
}

}  // namespace

OperatorDef batched_scaled_mm();
OperatorDef batched_scaled_mm() {
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "batched_scaled_mm(a: f8e4m3|i8[B, M, K], b: like(a)[B, K, N], a_scale: f32[] ~ positive, "
      "b_scale: f32[] ~ positive, *, bias: f[N]?, out_dtype: dtype(f) = none) "
      "-> out: out_dtype|bf16[B, M, N] where M: bucket(tokens), B: bucket(tokens)";
  def.letters = {"B", "M", "K", "N"};
  def.formula = "out[b] = (a_scale · b_scale) · (a[b] · b[b]) + bias";
  def.reference = reference;
  def.bound = [](const Problem& p, int judged) {
    return scaled::bound(scaled::scaled_matrix_problem(p), judged);
  };
  def.work_per_row = [](const Problem& p) {
    return 3 * static_cast<double>(p.dims[kBatchedK]) * static_cast<double>(p.dims[kBatchedN]);
  };
  def.implementations.push_back(scaled::batched_scaled_wgmma());
  def.implementations.push_back(scaled::batched_scaled_mma());
  def.implementations.push_back(scaled::batched_scaled_each(DeviceType::kCuda));
  def.implementations.push_back(scaled::batched_scaled_each(DeviceType::kCpu));
  return def;
}

}  // namespace dlblas::gemm
