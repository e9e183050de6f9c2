// flash_attention_f8_lse, attention of f8 heads, softmax(scale·QKᵀ + bias)·V, and its log-sum-exp:
// schema, oracle and implementations. q, k and v each have one factor per sequence and head of k,
// as in FlashAttention-3. Read next: ops/attention/flash_attention_lse/flash_attention_lse.cpp.
#include "ops/attention/attention_definition.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kQ, kK, kV, kBias, kQDescale, kKDescale, kVDescale, kO, kLse };
enum Letter : int { kB, kS, kHkv, kG, kD, kL, kDv };
// clang-format off
constexpr AttentionOp kOp = {.name = "flash_attention_f8_lse",
                             .q = kQ, .k = kK, .v = kV, .bias = kBias, .o = kO, .lse = kLse,
                             .batch = kB, .q_rows = kS, .heads = kHkv, .group = kG, .d = kD,
                             .k_rows = kL, .dv = kDv,
                             .q_descale = kQDescale, .k_descale = kKDescale,
                             .v_descale = kVDescale};
// clang-format on

}  // namespace

OperatorDef flash_attention_f8_lse();
OperatorDef flash_attention_f8_lse() {
  OperatorDef def;
  def.schema =
      "flash_attention_f8_lse(q: f8[B, S, Hkv*G, D], k: like(q)[B, L, Hkv, D], "
      "v: like(q)[B, L, Hkv, Dv], bias: f[1|B, 1|Hkv*G, 1|S, L]?, "
      "q_descale: f32[1|B, 1|Hkv]? ~ positive, k_descale: f32[1|B, 1|Hkv]? ~ positive, "
      "v_descale: f32[1|B, 1|Hkv]? ~ positive, *, "
      "causal: bool = false, scale: float = 0, window: int = -1 key(set=256), "
      "softcap: float = 0 key(set=30), out_dtype: dtype(f) = none) "
      "-> (o: out_dtype|bf16[B, S, Hkv*G, Dv], lse: f32[B, Hkv*G, S]) "
      "where B: bucket(tokens), S: bucket(tokens), L: bucket(tokens)";
  def.formula =
      "s = scale · q_descale · k_descale · q · k, softcap · tanh(s / softcap), + bias; "
      "o = v_descale · Σ_L softmax_L(s) · v; lse = log Σ_L e^s";
  def.letters = {"B", "S", "Hkv", "G", "D", "L", "Dv"};
  define_attention<kOp>(def);
  return def;
}

}  // namespace dlblas::attention
