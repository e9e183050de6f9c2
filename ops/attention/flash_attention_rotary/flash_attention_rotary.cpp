// flash_attention_rotary, attention that first rotates q and k by tables: schema, oracle and
// implementations. Letters Hkv and G: heads of k, and heads of q per head of k.
// Read next: ops/attention/attention_oracle.cpp (what it computes), attention_rotary.cpp,
// attention_rotary.cuh (how).
#include "ops/attention/rotary/attention_rotary_host.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kQ, kK, kV, kCos, kSin, kO, kLse };
enum Letter : int { kB, kS, kHkv, kG, kDh, kDv };
// clang-format off
constexpr AttentionOp kOp = {.name = "flash_attention_rotary",
                             .q = kQ, .k = kK, .v = kV, .o = kO, .lse = kLse,
                             .batch = kB, .q_rows = kS, .heads = kHkv, .group = kG, .d = kDh,
                             .k_rows = kS, .dv = kDv, .cos = kCos, .sin = kSin};
// clang-format on

}  // namespace

OperatorDef flash_attention_rotary();
OperatorDef flash_attention_rotary() {
  OperatorDef def;
  def.family = "attention";
  def.schema =
      "flash_attention_rotary(q: f[B, S, Hkv*G, 2Dh], k: like(q)[B, S, Hkv, 2Dh], "
      "v: like(q)[B, S, Hkv, Dv], cos: like(q)|f32[1|B, S, Dh|2Dh], "
      "sin: like(cos)[1|B, S, Dh|2Dh], *, "
      "causal: bool = false, scale: float = 0, window: int = -1 key(set=256), "
      "softcap: float = 0 key(set=30)) "
      "-> (o: like(q)[B, S, Hkv*G, Dv], lse: f32[B, Hkv*G, S]) "
      "where B: bucket(tokens), S: bucket(tokens)";
  def.formula =
      "q̂_l = q_l · cos_l − q_h · sin_l, q̂_h = q_h · cos_h + q_l · sin_h, k̂ alike; "
      "s = scale · q̂ · k̂, softcap · tanh(s / softcap); o = Σ_S softmax_S(s) · v; "
      "lse = log Σ_S e^s";
  def.letters = {"B", "S", "Hkv", "G", "Dh", "Dv"};
  def.by_element = {"lse"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) { attention_reference(kOp, args, rows, num_rows, out); };
  def.bound = [](const Problem& problem, int result) {
    return attention_bound(problem, kOp, result);
  };
  def.check = [](const Args& args) { check_attention(kOp.name, args); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kS]) * static_cast<double>(2 * p.dims[kDh] + 3 * p.dims[kDv]);
  };
  def.implementations = attention_cuda(kOp);
  def.implementations.push_back(attention_composed(kOp, DeviceType::kCpu));
  return def;
}

}  // namespace dlblas::attention
