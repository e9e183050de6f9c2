// partial_rotary_heads, which prepares the heads of DeepSeek's latent attention: schema, oracle and
// program. Read next: partial_rotary_heads_program.hpp (what it computes),
// partial_rotary_heads_ref.hpp (how exactly).
#include <algorithm>

#include "kernels/rows.hpp"
#include "ops/rope/latent_heads_ops.hpp"
#include "ops/rope/partial_rotary_heads/partial_rotary_heads_ref.hpp"

namespace dlblas::rope {

namespace {

/// Registers as compiled for sm_90: one access of 16-bit elements takes 48 if heads are as few and
/// as narrow as in real models, two take 108; more with wider channels or addresses, or if rows do
/// not fill the threads.
std::int32_t registers(const RowTraits& traits, const RowConfig& c) {
  constexpr int kCos = 4, kNarrow = 256;
  const auto narrow = [](std::int32_t channels) { return channels <= kNarrow; };
  const bool wide = traits.types[0] == DType::kF32;
  if (!wide && traits.types[kCos] == DType::kF32) return 24 + 60 * c.vectors;
  return !wide && traits.full && narrow(traits.shape.heads[0]) &&
                 std::all_of(traits.options, traits.options + 3, narrow)
             ? (c.vectors == 1 ? 48 : 12 + 48 * c.vectors)
             : 24 + 48 * c.vectors;
}

constexpr kernels::RowTuning kTuning = {nullptr, registers, nullptr};

}  // namespace

OperatorDef partial_rotary_heads();
OperatorDef partial_rotary_heads() {
  OperatorDef def;
  def.family = "rope";
  def.schema =
      "partial_rotary_heads(q: f[*T, H, Dn+2Dh], k_pe: like(q)[*T, 2Dh], kv: like(q)[*T, H, "
      "Dn+Dv], cos: like(q)|f32[*T, Dh|2Dh], sin: like(cos)[*T, Dh|2Dh]) -> (q_out: "
      "like(q)[*T, H, Dn+2Dh], k_out: like(q)[*T, H, Dn+2Dh], v_out: like(q)[*T, H, Dn+2Dh]) "
      "where T: bucket(tokens)";
  def.formula =
      "y_l = x_2i · cos_l − x_2i+1 · sin_l, y_h = x_2i+1 · cos_h + x_2i · sin_h of the last 2Dh "
      "channels; q_out = q ‖ y(q); k_out = kv ‖ y(k_pe); v_out = kv ‖ 0";
  def.letters = {"T", "H", "Dn", "Dh", "Dv"};
  kernels::set_row_oracle<partial_rotary_heads_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    return rotation_bound(problem.tensors[kPartialQ].dtype);
  };
  def.work_per_row = [](const Problem& problem) {
    return 8.0 * static_cast<double>(problem.dims[kPartialDn] + 2 * problem.dims[kPartialDh]);
  };
  def.check = [](const Args& args) { check_latent(args, kPartialDn, kPartialDh, kPartialDv); };
  kernels::RowOp op = {.program = "partial_rotary_heads",
                       .width = "Dh",
                       .operands = {"q|kv", "q_out|k_out", "|v_out", "k_pe", "cos", "sin"}};
  latent_heads<kPartialDn, kPartialDh, kPartialDv, kPartialCos, kPartialSin>(op);
  op.tuning = &kTuning;
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::rope
