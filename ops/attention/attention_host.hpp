// Host code that the attention operators over unpaged keys (dense and packed sequences) share:
// positions of their tensors in the schema, the keys that a row sees, the oracle.
// Read next: attention_oracle.cpp, attention_cpu.cpp, attention_cuda.cpp.
#pragma once

#include <algorithm>
#include <vector>

#include "core/element.hpp"
#include "ops/attention/indices.hpp"
#include "registry/operator.hpp"

namespace dlblas::attention {

/// An operator's name, and the positions of its tensors and letters in the schema; −1: it has none.
struct AttentionOp {
  const char* name;
  int q, k, v, bias = -1, cu_q = -1, cu_k = -1, o, lse;  // tensors
  int batch, q_rows, heads, group, d, k_rows, dv;  // letters: heads of k, queries' for each of them
  int q_descale = -1, k_descale = -1, v_descale = -1;  // tensors [sequence, head of k], of f8
  int cos = -1, sin = -1;  // tensors [1 or batch, row, pairs or d]: q and k are rotated first
  bool packed() const { return cu_q >= 0; }
  bool rotates() const { return cos >= 0; }
  /// Columns of a head of q and k. With a rotation, letter `d` counts pairs.
  std::int64_t width(const std::int64_t* letters) const { return letters[d] * (rotates() ? 2 : 1); }
};
/// Whether a table of rotations has one column per pair, which serves both channels.
inline bool has_half_rows(const Problem& p, int table) { return (p.ones[table] & 4) != 0; }
/// Scalars, in the order of every schema, and their positions in the key.
enum AttentionScalar : int { kCausal, kScale, kWindow, kSoftcap };
enum AttentionKey : int { kCausalKey, kWindowKey, kSoftcapKey };

/// Keys [first, end).
struct Keys {
  std::int64_t first, end;
};
/// One sequence: its rows of q and of k.
struct Sequence {
  std::int64_t q_from, q_rows, k_from, k_rows;
  bool none = false;  // rows that belong to no sequence, and see nothing
};

/// A tensor as [batch, row, head, column]; packed sequences have no batch.
struct Heads {
  TensorView t;
  std::int64_t at[4];
  std::int64_t offset(std::int64_t b, std::int64_t row, std::int64_t head) const {
    return b * at[0] + row * at[1] + head * at[2];
  }
  double element(std::int64_t offset, std::int64_t column) const;
};

/// One call.
struct AttentionCall {
  const Args& args;
  const AttentionOp& op;
  Heads q, k, v, o;
  std::int64_t batches, heads, group, d, dv;
  bool causal;
  std::int64_t window;  // −1: none
  double scale, cap;    // cap 0: none

  AttentionCall(const Args& call, const AttentionOp& which)
      : args(call),
        op(which),
        q(view(which.q)),
        k(view(which.k)),
        v(view(which.v)),
        o(view(which.o)),
        batches(call.letters[which.batch]),
        heads(call.letters[which.heads]),
        group(call.letters[which.group]),
        d(which.width(call.letters)),
        dv(call.letters[which.dv]),
        causal(call.scalars[kCausal].i != 0),
        window(call.scalars[kWindow].i),
        scale(call.scalars[kScale].f),
        cap(call.scalars[kSoftcap].f) {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, d)));
  }

  std::int64_t all_heads() const { return heads * group; }
  /// Packed sequences have one more: the rows that belong to no sequence.
  std::int64_t sequences() const { return op.packed() ? batches + 1 : batches; }
  Sequence sequence(std::int64_t b) const {
    const std::int64_t rows = args.letters[op.q_rows], keys = args.letters[op.k_rows];
    if (!op.packed()) return {0, rows, 0, keys};
    const Keys of_q = part(op.cu_q, b, rows), of_k = part(op.cu_k, b, keys);
    return {of_q.first, of_q.end - of_q.first, of_k.first, of_k.end - of_k.first, b == batches};
  }
  /// The keys that position `row` of a sequence sees; the last query aligns with the last key.
  Keys visible(const Sequence& s, std::int64_t row) const {
    const std::int64_t at = row + s.k_rows - s.q_rows;
    Keys keys{0, s.k_rows};
    if (causal) keys.end = std::min(keys.end, at + 1);
    if (window >= 0) {
      keys.first = std::max<std::int64_t>(0, at - window);
      if (!causal) keys.end = std::min(keys.end, at + window + 1);
    }
    if (s.none) return {0, 0};
    keys.end = std::max(keys.end, keys.first);
    return keys;
  }
  /// The positions whose queries see `key`.
  Keys seeing(const Sequence& s, std::int64_t key) const {
    const std::int64_t at = key - s.k_rows + s.q_rows;
    Keys rows{0, s.none ? 0 : s.q_rows};
    if (causal) rows.first = std::max(rows.first, at);
    if (window >= 0) {
      rows.end = std::min(rows.end, at + window + 1);
      if (!causal) rows.first = std::max(rows.first, at - window);
    }
    rows.end = std::max(rows.end, rows.first);
    return rows;
  }
  /// The factor of a product of q and k; value_scale is the factor of a sum over v.
  double scale_of(std::int64_t b, std::int64_t head) const {
    return scale * descale(op.q_descale, b, head) * descale(op.k_descale, b, head);
  }
  double value_scale(std::int64_t b, std::int64_t head) const {
    return descale(op.v_descale, b, head);
  }
  bool has_bias() const { return op.bias >= 0 && args.has(op.bias); }
  const TensorView& bias() const { return args.tensors[op.bias]; }
  std::int64_t bias_at(int i) const { return bias().shape[i] == 1 ? 0 : bias().strides[i]; }
  std::int64_t bias_row(std::int64_t b, std::int64_t head, std::int64_t row) const {
    return b * bias_at(0) + head * bias_at(1) + row * bias_at(2);
  }
  std::int64_t lse_row(std::int64_t b, std::int64_t head) const {
    const TensorView& t = args.tensors[op.lse];
    return op.packed() ? head * t.strides[0] : b * t.strides[0] + head * t.strides[1];
  }
  std::int64_t lse_step() const {
    const TensorView& t = args.tensors[op.lse];
    return t.strides[t.rank - 1];
  }
  Heads view(int i) const {
    const TensorView& t = args.tensors[i];
    if (op.packed()) return {t, {0, t.strides[0], t.strides[1], t.strides[2]}};
    return {t, {t.strides[0], t.strides[1], t.strides[2], t.strides[3]}};
  }
  /// An element of lse, or of a tensor of the same shape.
  double row_value(int i, std::int64_t b, std::int64_t head, std::int64_t row) const {
    const TensorView& t = args.tensors[i];
    const std::int64_t at = op.packed()
                                ? head * t.strides[0] + row * t.strides[1]
                                : b * t.strides[0] + head * t.strides[1] + row * t.strides[2];
    return load_element(t, at);
  }

 private:
  double descale(int i, std::int64_t b, std::int64_t head) const {
    if (i < 0 || !args.has(i)) return 1;
    const TensorView& t = args.tensors[i];
    if (t.shape[0] <= 1) b = 0;
    if (t.shape[1] <= 1) head = 0;
    // Rows that belong to no sequence have no descale.
    if (b >= t.shape[0]) return 1;
    return load_element(t, b * t.strides[0] + head / group * t.strides[1]);
  }
  /// The range between offsets b and b + 1, clamped to `rows` whatever the tensor holds; offset 0
  /// is 0.
  Keys part(int cu, std::int64_t b, std::int64_t rows) const {
    const TensorView& t = args.tensors[cu];
    const auto at = [&](std::int64_t i) {
      if (i == 0 || i > batches) return i == 0 ? 0 : rows;
      return std::clamp<std::int64_t>(index_at(t, i * t.strides[0]), 0, rows);
    };
    return {at(b), std::max(at(b), at(b + 1))};
  }
};

/// A gradient operator: positions of the forward operator's tensors in its schema, and of its own.
struct AttentionGradientOp {
  AttentionOp of;
  int dout, dlse, dq, dk, dv;
};

void attention_reference(const AttentionOp& op, const Args& args, const std::int64_t* rows,
                         std::int64_t num_rows, OracleOut* out);
Bound attention_bound(const Problem& problem, const AttentionOp& op, int result);
/// Throws for scalars out of range.
void check_attention(const char* name, const Args& args);
/// One implementation per instruction set; `op` must live as long as the process.
std::vector<Implementation> attention_cpu(const AttentionOp& op);
/// cpu_amx, for bf16 only.
std::vector<Implementation> attention_tiles_cpu(const AttentionOp& op);
/// `same_bits` of the instruction-set levels: no where AMX serves too, because its bits differ.
inline Support bits_beside_tiles(const Query& q, bool served) {
  if (served && q.device.amx) return Support::no("has other bits than AMX, which runs here");
  return Support::yes();
}
/// cuda_wgmma, cuda_mma and cuda_rows; with a rotation, cuda_composed comes last.
std::vector<Implementation> attention_cuda(const AttentionOp& op);

void attention_gradient_reference(const AttentionGradientOp& op, const Args& args,
                                  const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
Bound attention_gradient_bound(const Problem& problem, const AttentionGradientOp& op);
std::vector<Implementation> attention_gradient_cpu(const AttentionGradientOp& op);
std::vector<Implementation> attention_gradient_cuda(const AttentionGradientOp& op);

}  // namespace dlblas::attention
