// flash_attention_varlen_backward, the gradient of flash_attention_varlen_lse: schema, oracle and
// implementations. Read next: ops/attention/flash_attention_backward/flash_attention_backward.cpp.
#include "ops/attention/attention_definition.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kDout, kQ, kK, kV, kO, kLse, kCuQ, kCuK, kDlse, kDq, kDk, kDv };
enum Letter : int { kLetterT, kHkv, kG, kLetterDv, kLetterD, kLetterU, kLetterN };
// clang-format off
constexpr AttentionGradientOp kOp = {
    .of = {.name = "flash_attention_varlen_backward",
           .q = kQ, .k = kK, .v = kV, .cu_q = kCuQ, .cu_k = kCuK, .o = kO, .lse = kLse,
           .batch = kLetterN, .q_rows = kLetterT, .heads = kHkv, .group = kG, .d = kLetterD,
           .k_rows = kLetterU, .dv = kLetterDv},
    .dout = kDout, .dlse = kDlse, .dq = kDq, .dk = kDk, .dv = kDv};
// clang-format on

}  // namespace

OperatorDef flash_attention_varlen_backward();
OperatorDef flash_attention_varlen_backward() {
  OperatorDef def;
  def.schema =
      "flash_attention_varlen_backward(dout: f[T, Hkv*G, Dv], q: like(dout)[T, Hkv*G, D], "
      "k: like(dout)[U, Hkv, D], v: like(dout)[U, Hkv, Dv], o: like(dout)[T, Hkv*G, Dv], "
      "lse: f32[Hkv*G, T] ~ positive, cu_seqlens_q: index[N+1] ~ offsets<=T, "
      "cu_seqlens_k: index[N+1] ~ offsets<=U, dlse: f32[Hkv*G, T]?, *, causal: bool = false, "
      "scale: float = 0, window: int = -1 key(set=256), softcap: float = 0 key(set=30)) "
      "-> (dq: like(dout)[T, Hkv*G, D], dk: like(dout)[U, Hkv, D], dv: like(dout)[U, Hkv, Dv]) "
      "where T: bucket(tokens), U: bucket(tokens), N: bucket(tokens)";
  def.formula =
      "of each sequence: P = e^(s − lse); dS = P · (dout · v − dout · o + dlse) · ds/d(q · k); "
      "dq = Σ_k dS · k; dk = Σ_q dS · q; dv = Σ_q P · dout";
  def.letters = {"T", "Hkv", "G", "Dv", "D", "U", "N"};
  define_attention_gradient<kOp>(def);
  return def;
}

}  // namespace dlblas::attention
