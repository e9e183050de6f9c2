// Rotation of q and k before attention: a separate launch into the workspace, from which attention
// reads them; see attention_rotary_host.hpp. In: Problem; Args. Out: parts, a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: core/nested.hpp.
#include "core/source_hash.hpp"
#include "ops/attention/rotary/attention_rotary_host.hpp"

namespace dlblas::attention {
namespace {

std::int64_t dim(const Problem& p, int letter) { return p.dims[letter]; }
std::int64_t heads_of_q(const Problem& p, const AttentionOp& op) {
  return dim(p, op.heads) * dim(p, op.group);
}
/// Bytes of q, rounded up to the alignment of k, which follows it.
std::int64_t padded(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// A contiguous tensor of four dimensions.
TensorView packed(TensorView t, void* to) {
  t.data = to;
  for (std::int64_t i = 3, stride = 1; i >= 0; --i) {
    t.strides[i] = stride;
    stride *= std::max<std::int64_t>(1, t.shape[i]);
  }
  return t;
}
/// A table with one row per token; the rows of one sequence may serve all.
TensorView table_of(const Args& args, const AttentionOp& op, int table) {
  TensorView t = args.tensors[table];
  if (t.shape[0] != args.letters[op.batch]) t.shape[0] = args.letters[op.batch], t.strides[0] = 0;
  return t;
}
/// Its columns: D, or D/2, each for both channels of a pair.
std::int64_t columns_of(const Problem& p, const AttentionOp& op, int table) {
  return op.width(p.dims) / (has_half_rows(p, table) ? 2 : 1);
}
/// The traits of that table.
TensorTraits traits_of_table(const Problem& p, const AttentionOp& op, int table) {
  TensorTraits t = p.tensors[table];
  const bool rows = t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
  if ((p.ones[table] & 1) != 0 && dim(p, op.batch) > 1 && rows) t.layout = Layout::kRowsBroadcast;
  return t;
}

/// The token buckets into which the B · S tokens of a call may fall, given the buckets of B and S.
struct TokenBuckets {
  static constexpr int kMax = 8;
  std::int64_t ends[kMax];
  int count = 0;
  TokenBuckets(const Problem& p, const AttentionOp& op) {
    const std::int64_t b = dim(p, op.batch), s = dim(p, op.q_rows);
    const std::int64_t least = b * s == 0 ? 0 : (bucket_before(b) + 1) * (bucket_before(s) + 1);
    for (std::int64_t at = bucket_tokens(least); count < kMax; at = bucket_tokens(at + 1)) {
      ends[count++] = at;
      if (at >= b * s) return;
    }
  }
};
struct State {
  const AttentionOp* op;
  TokenBuckets buckets;
  int part_of(std::int64_t tokens) const {
    int i = 0;
    while (i + 1 < buckets.count && buckets.ends[i] < tokens) ++i;
    return i;
  }
};

std::vector<Part> parts(const Query& q, const Config&) {
  const auto& op = q.user<AttentionOp>();
  const Problem& p = q.problem;
  const std::int64_t b = dim(p, op.batch), s = dim(p, op.q_rows), d = op.width(p.dims);
  const std::int64_t h = heads_of_q(p, op), hkv = dim(p, op.heads), dv = dim(p, op.dv);
  const DType type = p.tensors[op.q].dtype;
  const TensorTraits cos = traits_of_table(p, op, op.cos), sin = traits_of_table(p, op, op.sin);
  const TokenBuckets buckets(p, op);
  std::vector<Part> made;
  for (int i = 0; i < buckets.count; ++i) {
    const std::int64_t t = buckets.ends[i];
    made.push_back({"apply_rotary_pos_emb",
                    {{p.tensors[op.q], {t, h, d}},
                     {p.tensors[op.k], {t, hkv, d}},
                     {cos, {t, columns_of(p, op, op.cos)}},
                     {sin, {t, columns_of(p, op, op.sin)}}},
                    {{type, {t, h, d}}, {type, {t, hkv, d}}}});
  }
  made.push_back({"flash_attention_lse",
                  {{type, {b, s, h, d}},
                   {type, {b, s, hkv, d}},
                   {p.tensors[op.v], {b, s, hkv, dv}},
                   {"causal", p.scalars[kCausalKey] != 0},
                   {"scale", 0.0},
                   {"window", p.scalars[kWindowKey] != 0 ? 256 : -1},
                   {"softcap", p.scalars[kSoftcapKey] != 0 ? 30.0 : 0.0}},
                  {{p.tensors[op.o], {b, s, h, dv}}, {p.tensors[op.lse], {b, h, s}}}});
  return made;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const AttentionOp& op = *state.op;
  const TensorView &q = args.tensors[op.q], &k = args.tensors[op.k];
  const TensorView to_q = packed(q, workspace);
  const std::int64_t of_q = padded(q.numel() * size_of(q.dtype));
  const TensorView to_k = packed(k, static_cast<char*>(workspace) + of_q);
  const std::int64_t tokens = args.letters[op.batch] * args.letters[op.q_rows];
  kernel.part(state.part_of(tokens))({q, k, table_of(args, op, op.cos), table_of(args, op, op.sin)},
                                     {to_q, to_k}, context, workspace);
  kernel.part(state.buckets.count)({to_q,
                                    to_k,
                                    args.tensors[op.v],
                                    {"causal", args.scalars[kCausal].i != 0},
                                    {"scale", args.scalars[kScale].f},
                                    {"window", args.scalars[kWindow].i},
                                    {"softcap", args.scalars[kSoftcap].f}},
                                   {args.tensors[op.o], args.tensors[op.lse]}, context, workspace);
  return 0;
}

}  // namespace

std::size_t turned_bytes(const Problem& p, const AttentionOp& op, Turned which) {
  const std::int64_t row = op.width(p.dims) * size_of(p.tensors[op.q].dtype);
  const std::int64_t tokens = dim(p, op.batch) * dim(p, op.q_rows);
  const std::int64_t of_q = which == Turned::kBoth ? tokens * heads_of_q(p, op) * row : 0;
  return static_cast<std::size_t>(padded(of_q) + tokens * dim(p, op.heads) * row);
}

double rotation_ms(const Query& q, const AttentionOp& op, Turned which) {
  // q and k are read and written, the tables read once (H200: 0.85 of the memory bandwidth, 28
  // November 2026).
  constexpr double kCopy = 0.8;
  const Problem& p = q.problem;
  const double tables =
      static_cast<double>(dim(p, op.batch) * dim(p, op.q_rows) * op.width(p.dims)) * 2 *
      size_of(p.tensors[op.cos].dtype);
  const double bytes = 2 * static_cast<double>(turned_bytes(p, op, which)) + tables;
  return 1e3 * (launch_s(q.device) + bytes / (kCopy * memory_bytes_per_s(q.device)));
}

double turned_keys_ms(const Query& q, const AttentionOp& op) {
  // About 16 instructions per pair, each counted as two operations; not measured yet.
  constexpr double kOperations = 16, kReached = 0.5, kRows = 64;
  const Problem& p = q.problem;
  const auto size = [&](int letter) { return static_cast<double>(dim(p, letter)); };
  const double rows = size(op.q_rows), group = std::max(1.0, size(op.group));
  const double tiles = rows * group <= kRows ? 1 : group * std::ceil(rows / kRows);
  const double keys = tiles * size(op.batch) * size(op.heads) * size(op.k_rows);
  return 1e3 * keys * static_cast<double>(op.width(p.dims)) * kOperations /
         (kReached * flops(q.device, DType::kF32));
}

void set_tables(AttentionParams& p, const AttentionOp& op, const Args& args) {
  p.cos = args.tensors[op.cos].data, p.sin = args.tensors[op.sin].data;
  for (int i = 0; i < 3; ++i) {
    p.cos_at[i] = table_of(args, op, op.cos).strides[i];
    p.sin_at[i] = table_of(args, op, op.sin).strides[i];
  }
}

Heads packed_keys(const AttentionOp& op, const Args& args, void* to) {
  Heads made{packed(args.tensors[op.k], to), {}};
  std::copy_n(made.t.strides, 4, made.at);
  return made;
}

int launch_turn_keys(const cuda::Function& entry, const AttentionParams& p, void* to,
                     void* stream) {
  const std::int64_t each = std::max<std::int64_t>(1, std::int64_t{p.heads} * (p.d / 16));
  const std::int64_t tokens = std::max<std::int64_t>(1, kTurnThreads / each);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>((std::int64_t{p.batches} * p.k_rows + tokens - 1) / tokens);
  how.block.x = kTurnThreads;
  return cuda::launch(entry, how, TurnKeysParams{p, to, static_cast<std::uint32_t>(tokens)},
                      stream);
}

Implementation attention_composed(const AttentionOp& op, DeviceType backend) {
  Implementation impl;
  impl.name = backend == DeviceType::kCpu ? "composed" : "cuda_composed";
  impl.backend = backend;
  impl.source_hash = source_hash<"ops/attention/rotary/attention_rotary.cpp">();
  impl.flags = {.deterministic = true, .capturable = true};
  impl.user = &op;
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.parts = parts;
  impl.prepare = [](const Query& q, const Config&) {
    const auto& of = q.user<AttentionOp>();
    return make_kernel({run}, State{&of, TokenBuckets(q.problem, of)},
                       turned_bytes(q.problem, of, Turned::kBoth));
  };
  if (backend == DeviceType::kCuda)
    impl.estimate = [](const Query& q, const Config&) {
      return attention_alone_ms(q) + rotation_ms(q, q.user<AttentionOp>(), Turned::kBoth);
    };
  return impl;
}

}  // namespace dlblas::attention
