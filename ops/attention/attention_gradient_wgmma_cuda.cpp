// Attention's gradient on Hopper, below the operators: cuda_wgmma for heads of 64 and 128. Three
// launches: lse and delta of tiles of queries; dk, dv and the sums of dq; dq. In: Problem, Config;
// Args. Out: Kernel and its sources; launches. Flow: call > validate > [select] > [compile] >
// [launch].
// Read next: attention_gradient_wgmma.cuh, attention_gradient_ends.cuh.
#include "core/source_hash.hpp"
#include "ops/attention/attention_gradient_cuda_host.hpp"

namespace dlblas::attention {
namespace {

const AttentionGradientOp& op_of(const Query& q) { return q.user<AttentionGradientOp>(); }
std::int64_t dim(const Query& q, int letter) { return q.problem.dims[letter]; }

constexpr int kBeforeThreads = 128, kAfterThreads = 256, kThreads = 384;
constexpr int kKeys = AttentionGradientWgmmaConfig::kKeys;
constexpr int kQueries = AttentionGradientWgmmaConfig::kQueries;

/// Tiles of queries: of a head (and sequence), and in total.
struct QueryTiles {
  std::int64_t each, all;
};
QueryTiles query_tiles(bool packed, std::int64_t rows, std::int64_t batches, std::int64_t heads) {
  const std::int64_t each =
      packed ? rows / kQueries + batches + 1 : (rows + kQueries - 1) / kQueries;
  return {each, each * heads * (packed ? 1 : batches)};
}

/// Offsets of the workspace's parts in bytes: dq (at 0), lse and delta, turns.
struct Places {
  std::size_t lse, delta, turns, bytes;
  Places(std::int64_t tiles, std::int64_t d) {
    const auto facts = static_cast<std::size_t>(tiles * kQueries) * sizeof(float);
    lse = facts * static_cast<std::size_t>(d);
    delta = lse + facts, turns = delta + facts;
    bytes = turns + static_cast<std::size_t>(tiles) * sizeof(std::int32_t);
  }
};

struct WgmmaForm : kernels::CudaForm<AttentionTraits, AttentionGradientWgmmaConfig> {
  static constexpr const char* kConfigName = "dlblas::attention::AttentionGradientWgmmaConfig";
  static constexpr bool kHopper = true;

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::stages>("stages", {2, 3}), field<&Config::sums>("sums", {1, 2}),
        field<&Config::heads>("heads", {16, 32, 64})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return members_of_traits(); }
  static Support supports(const Query& q) {
    const AttentionGradientOp& op = op_of(q);
    const Problem& p = q.problem;
    if (size_of(p.tensors[op.of.q].dtype) != 2)
      return Support::no("elements of {} do not have 16 bits", tensor(op.of.q));
    const std::int64_t d = dim(q, op.of.d);
    if ((d != 64 && d != 128) || dim(q, op.of.dv) != d)
      return Support::no("heads of {} and {}; expected 64 or 128", d, dim(q, op.of.dv));
    if (op.of.bias >= 0 && p.tensors[op.of.bias].dtype != DType::kAbsent)
      return Support::no("{} is given", tensor(op.of.bias));
    for (const int i : {op.of.q, op.of.k, op.of.v, op.of.o, op.dout, op.dq, op.dk, op.dv}) {
      if (reach_of(p.tensors[i], d) != Reach::kWide)
        return Support::no("rows of {} are not at multiples of 16 bytes", tensor(i));
      if (is_broadcast(p.tensors[i].layout)) return Support::no("{} is broadcast", tensor(i));
    }
    return supports_sizes(q, op.of);
  }
  static Support same_bits(const Query&) { return Support::no("cuda_mma adds in another order"); }
  static Traits traits(const Query& q, const Config&) { return gradient_traits(q); }
  static bool fits(const Query& q, const Config& c) {
    return c.shared_bytes(static_cast<std::int32_t>(dim(q, op_of(q).of.d))) <= 232448;
  }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "shared memory holds a block",
                  [copy](const Config& c) { return fits(copy, c); });
  }
  static Config preset(const Query&) { return {}; }
  static double milliseconds(const Query& q, const Config&) {
    // Fractions of the peaks; H200, November 2026: 340–560 TFLOP/s with heads of 128, 250–415 with
    // 64.
    const double products = dim(q, op_of(q).of.d) == 128 ? 0.5 : 0.35, bytes = 0.5;
    // Short sequences do not fill tiles of 128 keys.
    const AttentionOp& op = op_of(q).of;
    const double keys = static_cast<double>(dim(q, op.k_rows));
    const double filled = op.packed() ? keys / (keys + 64.0 * static_cast<double>(dim(q, op.batch)))
                                      : keys / (kKeys * std::ceil(keys / kKeys));
    return 2e3 * launch_s(q.device) +
           attention_ms(q, op, 5 / (products * std::max(filled, 1e-3)), 8 / bytes);
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.d);
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    const AttentionOp& op = op_of(q).of;
    const QueryTiles tiles = query_tiles(op.packed(), dim(q, op.q_rows), dim(q, op.batch),
                                         dim(q, op.heads) * dim(q, op.group));
    return Places(tiles.all, s.traits.d).bytes;
  }

  /// Reversed rows have no tensor map: cuda_mma's kernels stand in where a call may have them.
  static bool may_lie_otherwise(const Query& q) {
    const AttentionGradientOp& op = op_of(q);
    for (const int i : {op.of.q, op.of.k, op.of.v, op.dout})
      if (q.problem.tensors[i].layout != Layout::kContiguous) return true;
    return false;
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const std::string traits = traits_table().literal(s.traits);
    const std::string config = table().literal(table().to_config(s.config), kConfigName);
    const auto end = [&](const char* entry) {
      return KernelSource{"ops/attention/attention_gradient_ends.cuh",
                          text("dlblas::attention::attention_gradient_", entry, "<", traits, ">"),
                          0};
    };
    std::vector<KernelSource> made{
        end("before"),
        {"ops/attention/attention_gradient_wgmma.cuh",
         text("dlblas::attention::attention_gradient_wgmma<", traits, ", ", config, ">"),
         s.shared_bytes},
        end("after")};
    if (may_lie_otherwise(q))
      for (const KernelSource& other : GradientMma::sources(s.traits)) made.push_back(other);
    return made;
  }
  static std::vector<StepFn> steps(const State&) { return {run<0>, run<1>, run<2>}; }

  /// One of q, k, v and dout, as the copy engine walks it.
  struct Walk {
    Heads x;
    std::int64_t rows, heads, batches;
    int box_rows;
    bool packed;

    std::int64_t step(int i) const {
      const std::int64_t sizes[3] = {batches, rows, heads};
      return sizes[i] <= 1 ? x.t.shape[x.t.rank - 1] : x.at[i];
    }
    bool possible() const {
      for (int i = 0; i < 3; ++i)
        if (step(i) <= 0 || step(i) % 8 != 0 || step(i) >= std::int64_t{1} << 38) return false;
      return true;
    }
    /// Packed: see tile_box().
    int encode(TensorMap& map) const {
      cuda::TensorMapSpec spec;
      const std::int64_t d = x.t.shape[x.t.rank - 1];
      const std::int64_t sizes[4] = {d, packed ? box_rows : rows, heads,
                                     packed ? rows + 1 : batches};
      const std::int64_t steps[4] = {1, step(1), step(2), packed ? step(1) : step(0)};
      spec.dtype = x.t.dtype, spec.rank = 4;
      spec.data = static_cast<const char*>(x.t.data) - (packed ? box_rows * step(1) * 2 : 0);
      for (int i = 0; i < 4; ++i) {
        spec.sizes[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, sizes[i]));
        spec.box[i] = i == 0 ? 64 : i == 1 ? static_cast<std::uint32_t>(box_rows) : 1;
        if (i > 0) spec.strides_bytes[i - 1] = static_cast<std::uint64_t>(steps[i] * 2);
      }
      return cuda::encode_tensor_map(map, spec);
    }
  };

  template <int kStep>
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const AttentionGradientOp& op = *static_cast<const AttentionGradientOp*>(s.user);
    const AttentionCall call(args, op.of);
    const bool packed = op.of.packed();
    const std::int64_t q_rows = args.letters[op.of.q_rows], k_rows = args.letters[op.of.k_rows];
    const std::int64_t batches = packed ? 1 : call.batches;
    const Walk walks[4] = {
        {call.q, q_rows, call.all_heads(), batches, kQueries, packed},
        {call.k, k_rows, call.heads, batches, kKeys, packed},
        {call.v, k_rows, call.heads, batches, kKeys, packed},
        {call.view(op.dout), q_rows, call.all_heads(), batches, kQueries, packed}};
    for (const Walk& walk : walks)
      if (!walk.possible())
        return GradientMma::launch(kStep, op, s.traits, *kernel.entries[3 + kStep], args, context,
                                   workspace);

    const QueryTiles tiles = query_tiles(packed, q_rows, call.batches, call.all_heads());
    const Places places(tiles.all, s.traits.d);
    auto* const base = static_cast<unsigned char*>(workspace);
    AttentionGradientWgmmaParams g{};
    g.g = gradient_params(op, args, reinterpret_cast<float*>(base + places.delta));
    g.dq = reinterpret_cast<float*>(base), g.lse = reinterpret_cast<float*>(base + places.lse);
    g.turns = reinterpret_cast<std::int32_t*>(base + places.turns);
    g.q_tiles = static_cast<std::int32_t>(tiles.each);
    const std::int64_t key_tiles =
        packed ? k_rows / kKeys + call.batches + 1 : (k_rows + kKeys - 1) / kKeys;
    constexpr bool kMain = kStep == 1;
    g.g.p.tiles = static_cast<std::int32_t>(kMain ? key_tiles : tiles.each);
    const std::int64_t grid = kMain ? key_tiles * call.heads * batches : tiles.all;
    if (grid == 0 || (kMain ? k_rows : q_rows) == 0) return 0;
    if (kMain) {
      TensorMap* const maps[4] = {&g.q, &g.k, &g.v, &g.dout};
      for (int i = 0; i < 4; ++i)  // of no queries nothing is copied, but a map has memory
        if (const int code = walks[q_rows == 0 ? 1 : i].encode(*maps[i])) return code;
    }
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(grid);
    how.block.x = kMain ? kThreads : kStep == 0 ? kBeforeThreads : kAfterThreads;
    how.shared_bytes = kMain ? static_cast<unsigned>(s.shared_bytes) : 0;
    return cuda::launch(*kernel.entries[kStep], how, g, context.stream);
  }
};

}  // namespace

Implementation attention_gradient_wgmma(const AttentionGradientOp& op) {
  return kernels::make_cuda<WgmmaForm>(
      "cuda_wgmma", source_hash<"ops/attention/attention_gradient_wgmma_cuda.cpp">(), &op);
}

}  // namespace dlblas::attention
