// flash_attention_varlen_f8_lse, attention of packed sequences of f8 heads: schema, oracle and
// implementations. q, k and v each have one factor per sequence and head of k, as in
// FlashAttention-3. Read next:
// ops/attention/flash_attention_varlen_lse/flash_attention_varlen_lse.cpp.
#include "ops/attention/attention_definition.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kQ, kK, kV, kCuQ, kCuK, kQDescale, kKDescale, kVDescale, kO, kLse };
enum Letter : int { kT, kHkv, kG, kD, kU, kDv, kN };
// clang-format off
constexpr AttentionOp kOp = {.name = "flash_attention_varlen_f8_lse",
                             .q = kQ, .k = kK, .v = kV, .cu_q = kCuQ, .cu_k = kCuK, .o = kO,
                             .lse = kLse, .batch = kN, .q_rows = kT, .heads = kHkv, .group = kG,
                             .d = kD, .k_rows = kU, .dv = kDv,
                             .q_descale = kQDescale, .k_descale = kKDescale,
                             .v_descale = kVDescale};
// clang-format on

}  // namespace

OperatorDef flash_attention_varlen_f8_lse();
OperatorDef flash_attention_varlen_f8_lse() {
  OperatorDef def;
  def.schema =
      "flash_attention_varlen_f8_lse(q: f8[T, Hkv*G, D], k: like(q)[U, Hkv, D], "
      "v: like(q)[U, Hkv, Dv], cu_seqlens_q: index[N+1] ~ offsets<=T, "
      "cu_seqlens_k: index[N+1] ~ offsets<=U, q_descale: f32[1|N, 1|Hkv]? ~ positive, "
      "k_descale: f32[1|N, 1|Hkv]? ~ positive, v_descale: f32[1|N, 1|Hkv]? ~ positive, *, "
      "causal: bool = false, scale: float = 0, window: int = -1 key(set=256), "
      "softcap: float = 0 key(set=30), out_dtype: dtype(f) = none) "
      "-> (o: out_dtype|bf16[T, Hkv*G, Dv], lse: f32[Hkv*G, T]) "
      "where T: bucket(tokens), U: bucket(tokens), N: bucket(tokens)";
  def.formula =
      "of each sequence: s = scale · q_descale · k_descale · q · k, softcap · tanh(s / softcap); "
      "o = v_descale · Σ_k softmax_k(s) · v; lse = log Σ_k e^s";
  def.letters = {"T", "Hkv", "G", "D", "U", "Dv", "N"};
  define_attention<kOp>(def);
  return def;
}

}  // namespace dlblas::attention
