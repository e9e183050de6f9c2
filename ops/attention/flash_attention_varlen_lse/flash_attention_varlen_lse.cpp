// flash_attention_varlen_lse, attention of packed sequences: schema, oracle and implementations.
// Lengths are the offsets' alone, on the device: nothing is read back, and a captured graph serves
// others. Read next: ops/attention/flash_attention_lse/flash_attention_lse.cpp.
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kQ, kK, kV, kCuQ, kCuK, kO, kLse };
enum Letter : int { kT, kHkv, kG, kD, kU, kDv, kN };
constexpr AttentionOp kOp = {kQ, kK, kV, -1, kCuQ, kCuK, kO, kLse, kN, kT, kHkv, kG, kD, kU, kDv};

}  // namespace

OperatorDef flash_attention_varlen_lse();
OperatorDef flash_attention_varlen_lse() {
  OperatorDef def;
  def.family = "attention";
  def.schema =
      "flash_attention_varlen_lse(q: f[T, Hkv*G, D], k: like(q)[U, Hkv, D], "
      "v: like(q)[U, Hkv, Dv], cu_seqlens_q: i32[N+1] ~ offsets<=T, "
      "cu_seqlens_k: i32[N+1] ~ offsets<=U, *, causal: bool = false, scale: float = 0, "
      "window: int = -1 key(set=256), softcap: float = 0 key(set=30)) "
      "-> (o: like(q)[T, Hkv*G, Dv], lse: f32[Hkv*G, T]) "
      "where T: bucket(tokens), U: bucket(tokens), N: bucket(tokens)";
  def.formula =
      "of each sequence: s = scale · q · k, softcap · tanh(s / softcap); "
      "o = Σ_k softmax_k(s) · v; lse = log Σ_k e^s";
  def.letters = {"T", "Hkv", "G", "D", "U", "Dv", "N"};
  def.by_element = {"lse"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) { attention_reference(kOp, args, rows, num_rows, out); };
  def.bound = [](const Problem& problem, int result) {
    return attention_bound(problem, kOp, result);
  };
  def.check = [](const Args& args) { check_attention("flash_attention_varlen_lse", args); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kU]) * static_cast<double>(p.dims[kD] + 3 * p.dims[kDv]);
  };
  def.implementations = attention_cpu(kOp);
  for (const Implementation& impl : attention_cuda(kOp)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::attention
