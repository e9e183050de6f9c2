// Attention on NVIDIA GPUs, below the operators: cuda_wgmma for Hopper and heads whose rows are
// multiples of 16 bytes, up to 256, cuda_mma for f16 and bf16 with heads up to 256, cuda_rows for
// everything. In: Problem, Config; Args. Out: Kernel and its source; launches.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: attention_wgmma.cuh,
// attention_mma.cuh, attention_rows.cuh.
#include "core/source_hash.hpp"
#include "ops/attention/cuda/attention_wgmma_host.hpp"
#include "ops/attention/rotary/attention_rotary_host.hpp"

namespace dlblas::attention {
bool has_rows(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
         t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
}
Reach reach_of(const TensorTraits& t, std::int64_t width) {
  if (has_rows(t) && t.align_log2 >= 4 && width % (16 / size_of(t.dtype)) == 0) return Reach::kWide;
  return aligned_to_elements(t) ? Reach::kElement : Reach::kByte;
}

AttentionTraits traits_of(const Problem& p, const AttentionOp& op) {
  const std::int64_t d = op.width(p.dims), dv = p.dims[op.dv];
  AttentionTraits s{};
  s.from = p.tensors[op.q].dtype, s.to = p.tensors[op.o].dtype;
  s.type = is_f8(s.from) ? DType::kF16 : s.from;
  s.bias = op.bias < 0 ? DType::kAbsent : p.tensors[op.bias].dtype;
  s.d = rounded_up(d, 32), s.dv = rounded_up(dv, 32);
  s.in = farther(reach_of(p.tensors[op.q], d),
                 farther(reach_of(p.tensors[op.k], d), reach_of(p.tensors[op.v], dv)));
  s.out = reach_of(p.tensors[op.o], dv);
  // A 16-byte store holds eight elements of 16 bits.
  if (is_f8(s.from) && s.to == DType::kF32) s.out = farther(s.out, Reach::kElement);
  if (s.bias != DType::kAbsent && !aligned_to_elements(p.tensors[op.bias]))
    s.bias_in = BiasAccess::kByte;
  s.cap = p.scalars[kSoftcapKey] != 0;
  s.packed_sequences = op.packed(), s.cache = s.from;
  if (op.rotates()) {
    const TensorTraits &cos = p.tensors[op.cos], &sin = p.tensors[op.sin];
    s.rotary = true, s.tables = cos.dtype;
    s.tables_in = farther(reach_of(cos, d), reach_of(sin, d));
    // A 16-byte load holds eight pairs.
    if (d % 16 != 0) s.tables_in = farther(s.tables_in, Reach::kElement);
  }
  return s;
}

const TraitsTable<AttentionTraits>& members_of_traits() {
  using S = AttentionTraits;
  static const auto* members = new TraitsTable<S>{
      "dlblas::attention::AttentionTraits",
      {member<&S::type>("type"), member<&S::from>("from"), member<&S::to>("to"),
       member<&S::bias>("bias"), member<&S::d>("d"), member<&S::dv>("dv"), member<&S::in>("in"),
       member<&S::out>("out"), member<&S::bias_in>("bias_in"), member<&S::cap>("cap"),
       member<&S::packed_sequences>("packed_sequences"), member<&S::page>("page"),
       member<&S::cache>("cache"), member<&S::rotary>("rotary"), member<&S::tables>("tables"),
       member<&S::tables_in>("tables_in")}};
  return *members;
}

AttentionParams tensors_of(const AttentionOp& op, const Args& args) {
  const AttentionCall call(args, op);
  AttentionParams p{};
  p.q = call.q.t.data, p.k = call.k.t.data, p.v = call.v.t.data, p.o = call.o.t.data;
  std::copy_n(call.q.at, 4, p.q_at), std::copy_n(call.k.at, 4, p.k_at);
  std::copy_n(call.v.at, 4, p.v_at), std::copy_n(call.o.at, 4, p.o_at);
  if (call.has_bias()) {
    p.bias = call.bias().data;
    for (int i = 0; i < 4; ++i) p.bias_at[i] = call.bias_at(i);
  }
  const TensorView& lse = args.tensors[op.lse];
  p.lse = static_cast<float*>(lse.data);
  p.lse_at[0] = op.packed() ? 0 : lse.strides[0];
  p.lse_at[1] = lse.strides[lse.rank - 2], p.lse_at[2] = lse.strides[lse.rank - 1];
  if (op.packed()) {
    point_words(args, op.cu_q, p.cu_q, p.cu_q_at);
    point_words(args, op.cu_k, p.cu_k, p.cu_k_at);
  }
  for (int i = 0; const int tensor : {op.q_descale, op.k_descale, op.v_descale}) {
    if (tensor >= 0 && args.has(tensor)) {
      const TensorView& t = args.tensors[tensor];
      p.descale[i] = static_cast<const float*>(t.data);
      for (int j = 0; j < 2; ++j) p.descale_at[i][j] = t.shape[j] <= 1 ? 0 : t.strides[j];
    }
    ++i;
  }
  if (op.rotates()) set_tables(p, op, args);
  const std::int64_t rows = args.letters[op.q_rows];
  p.q_rows = static_cast<std::int32_t>(rows);
  p.k_rows = static_cast<std::int32_t>(args.letters[op.k_rows]);
  p.batches = static_cast<std::int32_t>(call.batches);
  p.heads = static_cast<std::int32_t>(call.heads);
  p.group = static_cast<std::int32_t>(call.group);
  p.pack = 1;
  p.d = static_cast<std::int32_t>(call.d), p.dv = static_cast<std::int32_t>(call.dv);
  p.window = static_cast<std::int32_t>(std::min<std::int64_t>(call.window, 1 << 30));
  p.scale = static_cast<float>(call.scale), p.cap = static_cast<float>(call.cap);
  p.causal = call.causal;
  return p;
}

Support supports_sizes(const Query& q, const AttentionOp& op) {
  if (op.rotates())
    for (const int i : {op.cos, op.sin})
      if (has_half_rows(q.problem, i))
        return Support::no("{} has a column per pair, which two launches read", tensor(i));
  const auto dim = [&](int letter) { return q.problem.dims[letter]; };
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  for (const int letter : {op.q_rows, op.k_rows, op.batch})
    if (dim(letter) > kMax) return Support::no("{} rows or sequences", dim(letter));
  const std::int64_t heads = dim(op.heads) * dim(op.group);
  if (heads > kMax) return Support::no("{} heads", heads);
  const std::int64_t tiles = std::max(dim(op.q_rows), dim(op.k_rows)) / 4 + 2;
  const std::int64_t all = op.packed() ? tiles + dim(op.batch) : tiles * dim(op.batch);
  if (heads > 0 && all > 2 * kMax / heads) return Support::no("{} heads of {} tiles", heads, all);
  return Support::yes();
}

double attention_ms(const Query& q, const AttentionOp& op, double products, double passes) {
  const auto size = [&](int letter) { return static_cast<double>(q.problem.dims[letter]); };
  const double sequences = std::max(1.0, size(op.batch)), of = op.packed() ? 1 : sequences;
  const double heads = size(op.heads) * size(op.group), dv = size(op.dv);
  const double width = static_cast<double>(op.width(q.problem.dims)) + dv;
  const double rows = size(op.q_rows) * of, keys = size(op.k_rows) / (op.packed() ? sequences : 1);
  const DType type = q.problem.tensors[op.q].dtype;
  const double bytes =
      width * size_of(type) * (rows * heads + size(op.k_rows) * of * size(op.heads));
  return 1e3 * launch_s(q.device) + roofline_ms(q.device, bytes * passes,
                                                products * rows * heads * keys * width,
                                                is_f8(type) ? DType::kF16 : type);
}

/// Number of heads whose tiles are walked before those of others: as many as fill the device's
/// `units` once, so that their keys and values hit L2. In the order of all heads, each tile of a
/// short sequence read its own from memory: 16 × 1,024 keys, 16 heads of 128, no mask: 297 µs, now
/// 235 (H200, 27 November 2026). Where late rows see more keys, blocks share the tiles of some
/// heads evenly, in two rounds, forth and back; the number of heads is the one whose tiles fill the
/// rounds best. Keys of few bytes (heads of 64) do not keep memory busy, and take 2 to 7 % longer
/// in this order.
void walk_together(AttentionParams& p, int size, bool packed, std::int64_t units, bool may_share) {
  if ((p.d + p.dv) * size < kTogetherBytes) return;
  const std::int64_t all = std::int64_t{p.heads} * p.group / p.pack * (packed ? 1 : p.batches);
  const std::int64_t tiles = std::max(1, packed ? p.tiles / (p.batches + 1) : p.tiles);
  const bool uneven = p.causal != 0 || p.window >= 0;
  std::int64_t heads = std::max<std::int64_t>(1, (units + tiles / 2) / tiles);
  if (uneven) {
    if (packed || !may_share) return;  // their order is the balance
    const std::int64_t rounds = 2 * units;
    double best = 0;
    for (std::int64_t n = 1; n <= std::max<std::int64_t>(1, 2 * rounds / tiles); ++n) {
      const std::int64_t places = (n * tiles + rounds - 1) / rounds * rounds;
      const double filled = static_cast<double>(n * tiles) / static_cast<double>(places);
      if (filled > best + 0.005) best = filled, heads = n;
    }
  }
  if (heads >= all) return;
  p.together = static_cast<std::int32_t>(heads), p.apart = uneven;
}

namespace {

const AttentionOp& op_of(const Query& q) { return q.user<AttentionOp>(); }
std::int64_t dim(const Query& q, int letter) { return q.problem.dims[letter]; }
std::int64_t width_of(const Query& q) { return op_of(q).width(q.problem.dims); }

/// Parameters and grid of the kernels that use tile_at().
AttentionParams params_of(const AttentionOp& op, const Args& args, std::int64_t tile_rows,
                          std::int64_t units, cuda::Launch& how) {
  AttentionParams p = tensors_of(op, args);
  const std::int64_t rows = p.q_rows, sequences = p.batches + op.packed();
  // With few positions, all heads that share a head of k share a tile.
  const std::int64_t each = op.packed() ? rows / std::max(1, p.batches) : rows;
  if (each * p.group <= tile_rows && rows * p.group < (std::int64_t{1} << 31)) p.pack = p.group;
  const std::int64_t tiles = op.packed() ? rows * p.pack / tile_rows + sequences
                                         : (rows * p.pack + tile_rows - 1) / tile_rows;
  p.tiles = static_cast<std::int32_t>(tiles);
  walk_together(p, size_of(args.tensors[op.q].dtype), op.packed(), 2 * units, false);
  if (rows > 0 && sequences > 0 && p.heads > 0 && p.group > 0)
    how.grid.x =
        static_cast<unsigned>(tiles * p.heads * (p.group / p.pack) * (op.packed() ? 1 : p.batches));
  else
    how.grid.x = 0;
  return p;
}

/// The only step of both forms. Without rows, it launches nothing.
template <typename Form>
int launch_tiles(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& s = kernel.load<typename Form::State>();
  cuda::Launch how;
  how.block.x = static_cast<unsigned>(s.config.warps * 32);
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  const AttentionParams p = params_of(*static_cast<const AttentionOp*>(s.user), args,
                                      s.config.warps * Form::kWarpRows, s.units, how);
  return how.grid.x == 0 ? 0 : cuda::launch(*kernel.entries[0], how, p, context.stream);
}

struct MmaForm : kernels::CudaForm<AttentionTraits, AttentionMmaConfig> {
  static constexpr const char* kInclude = "ops/attention/cuda/attention_mma.cuh";
  static constexpr const char* kEntry = "dlblas::attention::attention_mma";
  static constexpr const char* kConfigName = "dlblas::attention::AttentionMmaConfig";
  static constexpr int kWarpRows = 16;

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::warps>("warps", {1, 2, 4, 8}),
                                field<&Config::keys>("keys", {16, 32, 64, 128})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return members_of_traits(); }
  static Support supports(const Query& q) {
    const AttentionOp& op = op_of(q);
    if (size_of(q.problem.tensors[op.q].dtype) > 2)
      return Support::no("{} has more than 16 bits an element", tensor(op.q));
    for (const std::int64_t width : {width_of(q), dim(q, op.dv)})
      if (width > 256) return Support::no("heads of {}; at most 256", width);
    return supports_sizes(q, op_of(q));
  }
  static Traits traits(const Query& q, const Config&) { return traits_of(q.problem, op_of(q)); }
  static std::int64_t bytes(const Query& q, const Config& c) {
    return bytes_of(traits_of(q.problem, op_of(q)), c);
  }
  static std::int64_t bytes_of(const Traits& s, const Config& c) {
    return (c.warps * 16 + 2 * c.keys) * (2 * s.d + 16) + 2 * c.keys * (2 * s.dv + 16);
  }
  /// Whether the registers of a thread hold its accumulators, and the memory of every GPU a block.
  static bool fits(const Query& q, const Config& c) {
    return holds(traits_of(q.problem, op_of(q)), c);
  }
  static bool holds(const Traits& s, const Config& c) {
    const int held = s.d <= 128 && s.bias == DType::kAbsent ? s.d / 4 : 4;
    return s.dv / 2 + c.keys / 2 + held <= 168 && bytes_of(s, c) <= 99 * 1024;
  }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "registers and shared memory hold a block",
                  [copy](const Config& c) { return fits(copy, c); });
  }
  static Config preset(const Query& q) {
    const AttentionOp& op = op_of(q);
    const std::int64_t rows = op.packed() ? 64 : dim(q, op.q_rows) * dim(q, op.group);
    Config c;
    while (c.keys > 16 && !fits(q, c)) c.keys /= 2;
    if (rows <= 32) c.warps = rows <= 16 ? 1 : 2;
    return c;
  }
  /// A row's bits depend only on the blocks of keys, whose size preset() derives from that of the
  /// heads.
  static Problem typical(const Problem& problem) { return problem; }
  static double milliseconds(const Query& q, const Config&) {
    return alone_ms(q) + (op_of(q).rotates() ? turned_keys_ms(q, op_of(q)) : 0);
  }
  static double alone_ms(const Query& q) {
    // Of what large matrices reach: 150 to 200 TFLOP/s on an H200 (29 November 2026). Before Hopper
    // mma.sync is what they use; not measured yet.
    const double products = q.device.arch >= 90 ? 0.24 : 0.35;
    constexpr double kBytes = 0.5;
    return attention_ms(q, op_of(q), 2 / products, 1 / kBytes);
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(bytes(q, s.config));
  }
  static std::vector<StepFn> steps(const State&) { return {launch_tiles<MmaForm>}; }
};

struct RowsForm : kernels::CudaForm<AttentionTraits, AttentionRowsConfig> {
  static constexpr const char* kInclude = "ops/attention/cuda/attention_rows.cuh";
  static constexpr const char* kEntry = "dlblas::attention::attention_rows";
  static constexpr const char* kConfigName = "dlblas::attention::AttentionRowsConfig";
  static constexpr int kWarpRows = kRowsOfWarp;
  static constexpr std::int64_t kMaxShared = 96 * 1024;

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::warps>("warps", {1, 2, 4, 8})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return members_of_traits(); }
  static std::int64_t bytes(const Query& q, const Config& c) {
    return c.warps * kRowsOfWarp * width_of(q) * std::int64_t{sizeof(float)};
  }
  static Support supports(const Query& q) {
    if (bytes(q, {1}) > kMaxShared)
      return Support::no("heads of {}; at most {}", width_of(q),
                         kMaxShared / (kRowsOfWarp * std::int64_t{sizeof(float)}));
    return supports_sizes(q, op_of(q));
  }
  static Support same_bits(const Query& q) {
    if (MmaForm::supports(q)) return Support::no("cuda_mma adds in another order");
    return Support::yes();
  }
  static Problem typical(const Problem& problem) { return problem; }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "shared memory holds the queries",
                  [copy](const Config& c) { return bytes(copy, c) <= kMaxShared; });
  }
  /// Element-wise access, for any width.
  static Traits traits(const Query& q, const Config&) {
    Traits s = traits_of(q.problem, op_of(q));
    s.d = s.dv = 0;
    for (Reach* r : {&s.in, &s.out})
      if (*r == Reach::kWide) *r = Reach::kElement;
    return s;
  }
  static Config preset(const Query& q) {
    Config c;
    while (c.warps > 1 && bytes(q, c) > kMaxShared) c.warps /= 2;
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    // Fractions of the peaks; not measured yet. For 16-bit types the model uses the tensor cores'
    // peak.
    const bool half = size_of(q.problem.tensors[op_of(q).q].dtype) <= 2;
    return attention_ms(q, op_of(q), 2 / (half ? 0.004 : 0.05), 1 / 0.3);
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(bytes(q, s.config));
  }
  static std::vector<StepFn> steps(const State&) { return {launch_tiles<RowsForm>}; }
};

struct WgmmaForm : kernels::CudaForm<AttentionTraits, AttentionWgmmaConfig>, AttentionWgmma {
  static constexpr bool kHopper = true;

  static const TraitsTable<Traits>& traits_table() { return members_of_traits(); }
  static Support supports(const Query& q) {
    const AttentionOp& op = op_of(q);
    const Problem& p = q.problem;
    if (size_of(p.tensors[op.q].dtype) > 2)
      return Support::no("{} has more than 16 bits an element", tensor(op.q));
    const std::int64_t d = width_of(q), dv = dim(q, op.dv);
    if (const Support heads = supports_heads(d, dv); !heads) return heads;
    if (has_bias(q)) {
      const TensorTraits& bias = p.tensors[op.bias];
      // Single elements of 16 bits, or beside f8, would spill.
      const bool one = bias.dtype == DType::kF32 && !is_f8(type_of(q)) && aligned_to_elements(bias);
      if (!has_pairs(q) && !one)
        return Support::no("rows of {} are not at multiples of {} bytes", tensor(op.bias),
                           2 * size_of(bias.dtype));
      if (!has_rows(bias))
        return Support::no("elements of {} do not lie side by side", tensor(op.bias));
      if (!fits(q, {2, 64, 2, 1}))
        return Support::no("registers do not hold {} beside heads of {}", tensor(op.bias), dv);
    }
    for (const int i : {op.q, op.k, op.v, op.o})
      if (const Support rows = supports_rows(q, i, i == op.q || i == op.k ? d : dv); !rows)
        return rows;
    if (op.rotates()) {
      if (d % 16 != 0) return Support::no("heads of {}; not a multiple of 16", d);
      for (const int i : {op.cos, op.sin})
        if (reach_of(p.tensors[i], d) != Reach::kWide)
          return Support::no("rows of {} are not at multiples of 16 bytes", tensor(i));
    }
    return supports_sizes(q, op);
  }
  static bool has_bias(const Query& q) {
    const int bias = op_of(q).bias;
    return bias >= 0 && q.problem.tensors[bias].dtype != DType::kAbsent;
  }
  static Support same_bits(const Query&) { return Support::no("cuda_mma adds in another order"); }
  static Traits traits(const Query& q, const Config&) {
    const AttentionOp& op = op_of(q);
    Traits s = traits_of(q.problem, op);
    set_widths(s, width_of(q), dim(q, op.dv));
    if (has_bias(q)) {
      const bool one_row = has_one_row(q);
      s.bias_in = has_pairs(q) ? one_row ? BiasAccess::kRowPair : BiasAccess::kPair
                  : one_row    ? BiasAccess::kRowElement
                               : BiasAccess::kElement;
    }
    return s;
  }
  static int bias_registers(const Query& q) {
    if (!has_bias(q)) return 0;
    if (!has_pairs(q)) return kByElement;
    return size_of(q.problem.tensors[op_of(q).bias].dtype) / 2 * (has_one_row(q) ? 1 : 2);
  }
  static bool has_one_row(const Query& q) {
    constexpr int kRows = 2;  // the dimension of the bias that counts queries
    return (q.problem.ones[op_of(q).bias] >> kRows & 1) != 0;
  }
  static bool has_pairs(const Query& q) {
    const TensorTraits& bias = q.problem.tensors[op_of(q).bias];
    return (1 << bias.align_log2) >= 2 * size_of(bias.dtype);
  }
  static DType type_of(const Query& q) { return q.problem.tensors[op_of(q).q].dtype; }
  static Block block_of(const Query& q) {
    return {type_of(q),
            type_of(q),
            width_of(q),
            dim(q, op_of(q).dv),
            q.problem.scalars[kSoftcapKey] != 0,
            bias_registers(q)};
  }
  static bool fits(const Query& q, const Config& c) { return holds(block_of(q), c); }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "registers and shared memory hold a block",
                  [copy](const Config& c) { return fits(copy, c); });
  }
  static Config preset(const Query& q) {
    // H200, bf16 (30 November 2026; docs/notes/attention_gpu.md).
    const AttentionOp& op = op_of(q);
    const std::int64_t d = width_of(q), sequences = op.packed() ? dim(q, op.batch) : 1;
    const bool codes = is_f8(type_of(q));
    const std::int64_t each = std::max<std::int64_t>(1, sequences);
    const std::int64_t wide = std::max(d, dim(q, op.dv));
    const std::int64_t keys = dim(q, op.k_rows) / each;
    const bool plain = !has_bias(q) && q.problem.scalars[kSoftcapKey] == 0;
    // Products in turn are 1 to 5 % faster with heads of 64, and 8 % with a bias.
    Config c = wide <= 64 ? Config{3, 128, codes ? 2 : 3, 2, !codes, true}
                          : Config{2, 128, 2, codes && wide <= 128 ? 2 : 1, false, true};
    if (!codes && wide == 128) c.stages = 3, c.turns = !plain;
    if (!codes && wide > 64 && wide < 128)
      c = wide <= 80     ? Config{3, 112, 2, 2, false, true}
          : keys >= 2048 ? Config{2, 192, 2, 1, false, true}
                         : Config{2, 128, 2, 1, true, true};
    else if (!codes && d > 128 && d <= 192 && dim(q, op.dv) <= 128)
      c.turns = true;
    // Short sequences: small blocks waste less beyond a diagonal, and are 3 to 6 % faster without.
    const Config small{4, 64, 4, 2, false, true};
    const bool early = q.problem.scalars[kCausalKey] != 0 && dim(q, op.q_rows) / each <= 1024;
    if (early || (!op.packed() && keys <= 4096)) {
      if (wide <= 64 && fits(q, small)) c = small;
      if (wide == 256 && !codes) c.keys = 64;
    }
    if (!fits(q, c) && c.groups > 2 && block_of(q).bias != 0) c.groups = 2;
    while (!fits(q, c)) c.keys -= 16;
    const bool windowed =
        q.problem.scalars[kWindowKey] != 0 && !op.rotates() && milliseconds(q, c) > 0.1;
    c.draws = windowed || (op.packed() && many_lengths(sequences, milliseconds(q, c)));
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    const AttentionOp& op = op_of(q);
    return alone_ms(q) + (op.rotates() ? rotation_ms(q, op, Turned::kKeys) : 0);
  }
  static double alone_ms(const Query& q) {
    constexpr double kBytes = 0.5;  // of the peak
    const AttentionOp& op = op_of(q);
    const double width = static_cast<double>(width_of(q) + dim(q, op.dv));
    const double bias = !has_bias(q) ? 0 : has_one_row(q) ? 45 : 200;
    const double products = slowdown(width, bias);
    // Short sequences do not fill tiles of 128 rows.
    const double rows = static_cast<double>(dim(q, op.q_rows));
    const double filled = op.packed() ? rows / (rows + 64.0 * static_cast<double>(dim(q, op.batch)))
                                      : rows / (128 * std::ceil(rows / 128));
    return attention_ms(q, op, 2 * products / std::max(filled, 1e-3), 1 / kBytes);
  }
  /// Rotated keys begin here; the counter, if there is one, precedes them.
  static constexpr std::size_t kKeysAt = 256;
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    const AttentionOp& op = op_of(q);
    return op.rotates() ? kKeysAt + turned_bytes(q.problem, op, Turned::kKeys)
                        : counter_bytes(s.config);
  }
  static std::size_t zeroed_bytes(const Query&, const State& s) { return counter_bytes(s.config); }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(bytes(block_of(q), s.config));
  }

  /// Reversed rows have no tensor map: cuda_mma's kernel stands in where a call may have them.
  static bool may_lie_otherwise(const Query& q) {
    for (const int i : {op_of(q).q, op_of(q).k, op_of(q).v})
      if (q.problem.tensors[i].layout != Layout::kContiguous) return true;
    return false;
  }
  static MmaForm::State other_state(const Traits& traits) {
    MmaForm::State other{};
    other.traits = traits;
    other.traits.d = rounded_up(traits.d, 32), other.traits.dv = rounded_up(traits.dv, 32);
    other.traits.bias_in = BiasAccess::kElement;
    if (traits.d == 256) other.config.keys = 16;
    while (other.config.keys > 16 && !MmaForm::holds(other.traits, other.config))
      other.config.keys /= 2;
    other.shared_bytes = static_cast<std::int32_t>(MmaForm::bytes_of(other.traits, other.config));
    return other;
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    std::vector<KernelSource> made{
        {kInclude, kernels::cuda_entry<WgmmaForm>(kEntry, s), s.shared_bytes}};
    if (s.traits.rotary)
      made.push_back({"ops/attention/rotary/attention_rotary_keys.cuh",
                      text("dlblas::attention::turn_keys<", traits_table().literal(s.traits), ">"),
                      0});
    if (may_lie_otherwise(q)) {
      const MmaForm::State other = other_state(s.traits);
      made.push_back({MmaForm::kInclude, kernels::cuda_entry<MmaForm>(MmaForm::kEntry, other),
                      other.shared_bytes});
    }
    return made;
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const AttentionOp& op = *static_cast<const AttentionOp*>(s.user);
    AttentionCall call(args, op);
    cuda::Launch how;
    AttentionWgmmaParams g{};
    g.p = tensors_of(op, args), g.drawn = static_cast<std::uint32_t*>(workspace);
    const int rows = rows_of(s.config);
    g.p.tiles = static_cast<std::int32_t>(op.packed() ? g.p.q_rows / rows + g.p.batches + 1
                                                      : (g.p.q_rows + rows - 1) / rows);
    const std::int64_t batches = op.packed() ? 1 : call.batches;
    const std::int64_t grid = g.p.tiles * call.all_heads() * batches;
    if (grid == 0 || g.p.q_rows == 0) return 0;
    void* const turned = static_cast<char*>(workspace) + kKeysAt;
    if (op.rotates()) call.k = packed_keys(op, args, turned);
    const bool walked =
        encode(g.q, call.q, g.p.q_rows, call.all_heads(), batches, call.d, rows) &&
        encode(g.k, call.k, g.p.k_rows, call.heads, batches, call.d, s.config.keys) &&
        encode(g.v, call.v, g.p.k_rows, call.heads, batches, call.dv, s.config.keys);
    const cuda::Function* const otherwise = kernel.entries[op.rotates() ? 2 : 1];
    if (!walked && !otherwise) return kNotWalked;
    if (!walked) {
      const MmaForm::State other = other_state(s.traits);
      const AttentionParams p =
          params_of(op, args, other.config.warps * MmaForm::kWarpRows, s.units, how);
      how.block.x = static_cast<unsigned>(other.config.warps * 32);
      how.shared_bytes = static_cast<unsigned>(other.shared_bytes);
      return cuda::launch(*otherwise, how, p, context.stream);
    }
    if (op.rotates())
      if (const int code = launch_turn_keys(*kernel.entries[1], g.p, turned, context.stream))
        return code;
    g.p.grid = static_cast<std::int32_t>(grid);
    walk_together(g.p, size_of(args.tensors[op.q].dtype), op.packed(), s.units,
                  s.config.persistent);
    return start(g, s, kernel, context);
  }
};

}  // namespace

double attention_alone_ms(const Query& q) {
  const double anywhere =
      MmaForm::supports(q) ? MmaForm::alone_ms(q) : RowsForm::milliseconds(q, {});
  return q.device.arch == 90 && WgmmaForm::supports(q) ? std::min(anywhere, WgmmaForm::alone_ms(q))
                                                       : anywhere;
}

std::vector<Implementation> attention_cuda(const AttentionOp& op) {
  const char* hash = source_hash<"ops/attention/cuda/attention_cuda.cpp">();
  if (op.rotates()) {
    std::vector<Implementation> made{kernels::make_cuda<WgmmaForm>("cuda_wgmma", hash, &op),
                                     kernels::make_cuda<MmaForm>("cuda_mma", hash, &op),
                                     attention_composed(op, DeviceType::kCuda)};
    made[2].same_bits = RowsForm::same_bits;
    return made;
  }
  return {kernels::make_cuda<WgmmaForm>("cuda_wgmma", hash, &op),
          kernels::make_cuda<MmaForm>("cuda_mma", hash, &op),
          kernels::make_cuda<RowsForm>("cuda_rows", hash, &op)};
}

}  // namespace dlblas::attention
