// flash_attention_varlen_backward, the gradient of flash_attention_varlen_lse: schema, oracle and
// implementations. Read next: ops/attention/flash_attention_backward/flash_attention_backward.cpp.
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kDout, kQ, kK, kV, kO, kLse, kCuQ, kCuK, kDlse, kDq, kDk, kDv };
enum Letter : int { kLetterT, kHkv, kG, kLetterDv, kLetterD, kLetterU, kLetterN };
constexpr AttentionGradientOp kOp = {{kQ, kK, kV, -1, kCuQ, kCuK, kO, kLse, kLetterN, kLetterT,
                                      kHkv, kG, kLetterD, kLetterU, kLetterDv},
                                     kDout,
                                     kDlse,
                                     kDq,
                                     kDk,
                                     kDv};

}  // namespace

OperatorDef flash_attention_varlen_backward();
OperatorDef flash_attention_varlen_backward() {
  OperatorDef def;
  def.family = "attention";
  def.schema =
      "flash_attention_varlen_backward(dout: f[T, Hkv*G, Dv], q: like(dout)[T, Hkv*G, D], "
      "k: like(dout)[U, Hkv, D], v: like(dout)[U, Hkv, Dv], o: like(dout)[T, Hkv*G, Dv], "
      "lse: f32[Hkv*G, T] ~ positive, cu_seqlens_q: i32[N+1] ~ offsets<=T, "
      "cu_seqlens_k: i32[N+1] ~ offsets<=U, dlse: f32[Hkv*G, T]?, *, causal: bool = false, "
      "scale: float = 0, window: int = -1 key(set=256), softcap: float = 0 key(set=30)) "
      "-> (dq: like(dout)[T, Hkv*G, D], dk: like(dout)[U, Hkv, D], dv: like(dout)[U, Hkv, Dv]) "
      "where T: bucket(tokens), U: bucket(tokens), N: bucket(tokens)";
  def.formula =
      "of each sequence: P = e^(s − lse); dS = P · (dout · v − dout · o + dlse) · ds/d(q · k); "
      "dq = Σ_k dS · k; dk = Σ_q dS · q; dv = Σ_q P · dout";
  def.letters = {"T", "Hkv", "G", "Dv", "D", "U", "N"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) {
    attention_gradient_reference(kOp, args, rows, num_rows, out);
  };
  def.bound = [](const Problem& problem, int) { return attention_gradient_bound(problem, kOp); };
  def.check = [](const Args& args) { check_attention("flash_attention_varlen_backward", args); };
  def.work_per_row = [](const Problem& p) {
    const auto size = [&](int letter) { return static_cast<double>(p.dims[letter]); };
    return (size(kLetterU) + size(kLetterT) * size(kG)) * 3 * (size(kLetterD) + size(kLetterDv));
  };
  def.implementations = attention_gradient_cpu(kOp);
  for (const Implementation& impl : attention_gradient_cuda(kOp))
    def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::attention
