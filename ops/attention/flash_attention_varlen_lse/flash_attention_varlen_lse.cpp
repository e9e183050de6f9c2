// flash_attention_varlen_lse, attention of packed sequences: schema, oracle and implementations.
// Only the offsets, on the device, give the lengths: nothing is read back, and a captured graph
// also serves other lengths. Read next: ops/attention/flash_attention_lse/flash_attention_lse.cpp.
#include "ops/attention/attention_definition.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kQ, kK, kV, kCuQ, kCuK, kO, kLse };
enum Letter : int { kT, kHkv, kG, kD, kU, kDv, kN };
// clang-format off
constexpr AttentionOp kOp = {.name = "flash_attention_varlen_lse",
                             .q = kQ, .k = kK, .v = kV, .cu_q = kCuQ, .cu_k = kCuK, .o = kO,
                             .lse = kLse, .batch = kN, .q_rows = kT, .heads = kHkv, .group = kG,
                             .d = kD, .k_rows = kU, .dv = kDv};
// clang-format on

}  // namespace

OperatorDef flash_attention_varlen_lse();
OperatorDef flash_attention_varlen_lse() {
  OperatorDef def;
  def.schema =
      "flash_attention_varlen_lse(q: f[T, Hkv*G, D], k: like(q)[U, Hkv, D], "
      "v: like(q)[U, Hkv, Dv], cu_seqlens_q: index[N+1] ~ offsets<=T, "
      "cu_seqlens_k: index[N+1] ~ offsets<=U, *, causal: bool = false, scale: float = 0, "
      "window: int = -1 key(set=256), softcap: float = 0 key(set=30)) "
      "-> (o: like(q)[T, Hkv*G, Dv], lse: f32[Hkv*G, T]) "
      "where T: bucket(tokens), U: bucket(tokens), N: bucket(tokens)";
  def.formula =
      "of each sequence: s = scale · q · k, softcap · tanh(s / softcap); "
      "o = Σ_k softmax_k(s) · v; lse = log Σ_k e^s";
  def.letters = {"T", "Hkv", "G", "D", "U", "Dv", "N"};
  define_attention<kOp>(def);
  return def;
}

}  // namespace dlblas::attention
