// flash_attention_backward, the gradient of flash_attention_lse: schema, oracle and
// implementations. Read next: ops/attention/gradient/attention_gradient_oracle.cpp (what it
// computes), attention_gradient_cpu.cpp and attention_gradient_mma.cuh (how).
#include "ops/attention/attention_definition.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kDout, kQ, kK, kV, kO, kLse, kDlse, kBias, kDq, kDk, kDv };
enum Letter : int { kLetterB, kLetterS, kHkv, kG, kLetterDv, kLetterD, kLetterL };
// clang-format off
constexpr AttentionGradientOp kOp = {
    .of = {.name = "flash_attention_backward",
           .q = kQ, .k = kK, .v = kV, .bias = kBias, .o = kO, .lse = kLse, .batch = kLetterB,
           .q_rows = kLetterS, .heads = kHkv, .group = kG, .d = kLetterD, .k_rows = kLetterL,
           .dv = kLetterDv},
    .dout = kDout, .dlse = kDlse, .dq = kDq, .dk = kDk, .dv = kDv};
// clang-format on

}  // namespace

OperatorDef flash_attention_backward();
OperatorDef flash_attention_backward() {
  OperatorDef def;
  def.schema =
      "flash_attention_backward(dout: f[B, S, Hkv*G, Dv], q: like(dout)[B, S, Hkv*G, D], "
      "k: like(dout)[B, L, Hkv, D], v: like(dout)[B, L, Hkv, Dv], "
      "o: like(dout)[B, S, Hkv*G, Dv], lse: f32[B, Hkv*G, S] ~ positive, "
      "dlse: f32[B, Hkv*G, S]?, bias: like(dout)|f32[1|B, 1|Hkv*G, 1|S, L]?, *, "
      "causal: bool = false, scale: float = 0, window: int = -1 key(set=256), "
      "softcap: float = 0 key(set=30)) "
      "-> (dq: like(dout)[B, S, Hkv*G, D], dk: like(dout)[B, L, Hkv, D], "
      "dv: like(dout)[B, L, Hkv, Dv]) "
      "where B: bucket(tokens), S: bucket(tokens), L: bucket(tokens)";
  def.formula =
      "P = e^(s − lse); dS = P · (dout · v − dout · o + dlse) · ds/d(q · k); dq = Σ_L dS · k; "
      "dk = Σ_S dS · q; dv = Σ_S P · dout";
  def.letters = {"B", "S", "Hkv", "G", "Dv", "D", "L"};
  define_attention_gradient<kOp>(def);
  return def;
}

}  // namespace dlblas::attention
