// flash_attention_lse, softmax(scale·QKᵀ + bias)·V and its log-sum-exp: schema, oracle and
// implementations. Letters Hkv and G: heads of k, and heads of q per head of k.
// Read next: ops/attention/attention_oracle.cpp (what it computes), attention_cpu.cpp and
// attention_mma.cuh (how).
#include "ops/attention/attention_definition.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kQ, kK, kV, kBias, kO, kLse };
enum Letter : int { kB, kS, kHkv, kG, kD, kL, kDv };
// clang-format off
constexpr AttentionOp kOp = {.name = "flash_attention_lse",
                             .q = kQ, .k = kK, .v = kV, .bias = kBias, .o = kO, .lse = kLse,
                             .batch = kB, .q_rows = kS, .heads = kHkv, .group = kG, .d = kD,
                             .k_rows = kL, .dv = kDv};
// clang-format on

}  // namespace

OperatorDef flash_attention_lse();
OperatorDef flash_attention_lse() {
  OperatorDef def;
  def.schema =
      "flash_attention_lse(q: f[B, S, Hkv*G, D], k: like(q)[B, L, Hkv, D], "
      "v: like(q)[B, L, Hkv, Dv], bias: like(q)|f32[1|B, 1|Hkv*G, 1|S, L]?, *, "
      "causal: bool = false, scale: float = 0, window: int = -1 key(set=256), "
      "softcap: float = 0 key(set=30)) "
      "-> (o: like(q)[B, S, Hkv*G, Dv], lse: f32[B, Hkv*G, S]) "
      "where B: bucket(tokens), S: bucket(tokens), L: bucket(tokens)";
  def.formula =
      "s = scale · q · k, softcap · tanh(s / softcap), + bias; o = Σ_L softmax_L(s) · v; "
      "lse = log Σ_L e^s";
  def.letters = {"B", "S", "Hkv", "G", "D", "L", "Dv"};
  define_attention<kOp>(def);
  return def;
}

}  // namespace dlblas::attention
