// flash_attention_backward, the gradient of flash_attention_lse: schema, oracle and
// implementations. Read next: ops/attention/attention_gradient_oracle.cpp (what it computes),
// attention_gradient_cpu.cpp and attention_gradient_mma.cuh (how).
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

enum Tensor : int { kDout, kQ, kK, kV, kO, kLse, kDlse, kBias, kDq, kDk, kDv };
enum Letter : int { kLetterB, kLetterS, kHkv, kG, kLetterDv, kLetterD, kLetterL };
constexpr AttentionGradientOp kOp = {{kQ, kK, kV, kBias, -1, -1, kO, kLse, kLetterB, kLetterS, kHkv,
                                      kG, kLetterD, kLetterL, kLetterDv},
                                     kDout,
                                     kDlse,
                                     kDq,
                                     kDk,
                                     kDv};

}  // namespace

OperatorDef flash_attention_backward();
OperatorDef flash_attention_backward() {
  OperatorDef def;
  def.family = "attention";
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
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) {
    attention_gradient_reference(kOp, args, rows, num_rows, out);
  };
  def.bound = [](const Problem& problem, int) { return attention_gradient_bound(problem, kOp); };
  def.check = [](const Args& args) { check_attention("flash_attention_backward", args); };
  def.work_per_row = [](const Problem& p) {
    const auto size = [&](int letter) { return static_cast<double>(p.dims[letter]); };
    return (size(kLetterL) + size(kLetterS) * size(kG)) * 3 * (size(kLetterD) + size(kLetterDv));
  };
  def.implementations = attention_gradient_cpu(kOp);
  for (const Implementation& impl : attention_gradient_cuda(kOp))
    def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::attention
