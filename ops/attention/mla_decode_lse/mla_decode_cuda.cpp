// mla_decode_lse on tensor cores: a kernel over parts of the keys, and a second one that joins them
// if there are several. cuda_wgmma for Hopper, cuda_decode for sm_80 and later. In: Problem,
// Config; Args. Out: Kernel and its sources; launches. Flow: call > validate > [select] > [compile]
// > [launch].
// Read next: mla_wgmma.cuh, mla_decode.cuh.
#include <limits>

#include "ops/attention/cuda/join_parts_config.hpp"
#include "ops/attention/mla_decode_lse/mla_cuda.hpp"

namespace dlblas::attention::mla {
namespace {

/// Equals mla_shared_bytes in mla_decode.cuh.
std::int32_t shared_bytes_of(const MlaTraits& s, const MlaDecodeConfig& c) {
  const auto pitch = [](std::int32_t columns) { return (columns / 8 | 1) * 16; };
  const std::int32_t depth = s.latent + s.rotary;
  const bool codes = is_f8(s.cache);
  return c.rows * pitch(depth) + c.stages * c.keys * pitch(codes ? depth / 2 : depth) +
         c.rows * (c.keys + 4) * 4 + (codes ? 1 : 2) * c.rows * pitch(c.keys);
}

constexpr const char* kJoin = "dlblas::attention::mla_join";

/// `most`: parts that a launch may have; `least`: minimum keys of one part.
std::int64_t parts_of(const std::int64_t* sizes, std::int64_t most, std::int64_t least) {
  const std::int64_t keys = sizes[kW] * sizes[kPage];
  return std::max<std::int64_t>(1, std::min(most, (keys + least - 1) / least));
}
void set_parts(MlaParams& p, std::int64_t parts, std::int64_t rows, const MlaTraits& s,
               void* workspace) {
  p.parts = static_cast<std::int32_t>(parts);
  p.part_o = static_cast<float*>(workspace);
  p.part_lse = p.part_o + rows * parts * s.latent;
}
/// Bytes of `rows` rows, counted over all parts.
std::size_t part_bytes(std::int64_t rows, const MlaTraits& s) {
  return static_cast<std::size_t>(rows * (s.latent + 1)) * 4;
}
KernelSource join_source(const char* include, const MlaTraits& s) {
  return {include, text(kJoin, "<", traits_table().literal(s), ">"), 0};
}
int launch_join(const Context& context, const cuda::Function& join, const MlaParams& p,
                const MlaTraits& s, bool dependent) {
  cuda::Launch how;
  how.block.x = static_cast<unsigned>(join_threads(s.latent));
  const unsigned rows = static_cast<unsigned>(p.tokens) * static_cast<unsigned>(p.heads);
  const unsigned together =
      p.parts <= kMlaFew ? how.block.x / 32 / static_cast<unsigned>(mla_join_warps(s.latent)) : 1;
  how.grid.x = (rows + together - 1) / together;
  how.dependent = dependent;
  return cuda::launch(join, how, p, context.stream);
}

struct Form : kernels::CudaForm<MlaTraits, MlaDecodeConfig> {
  static constexpr const char* kInclude = "ops/attention/mla_decode_lse/mla_decode.cuh";
  static constexpr const char* kEntry = "dlblas::attention::mla_decode";
  static constexpr const char* kConfigName = "dlblas::attention::MlaDecodeConfig";
  // The number of parts, and with it the order of sums, depends on the batch.
  static constexpr bool kIsDeterministic = false;
  static constexpr bool kDependent = true;

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::rows>("rows", {16, 32, 64}), field<&Config::keys>("keys", {32, 64}),
        field<&Config::stages>("stages", {2, 3, 4}), field<&Config::blocks>("blocks", {1, 2})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return mla::traits_table(); }

  static bool fits(const Query& q, const Config& c) {
    // A block has up to 1 KiB besides; the device reserves as much for each but the first.
    const std::int32_t bytes = shared_bytes_of(traits_of(q.problem), c) + 1024;
    return c.rows / 16 * (c.keys / 8) >= 8 &&
           c.blocks * (bytes + 1024) <= q.device.shared_bytes_per_block + 1024;
  }
  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (size_of(p.tensors[kQNope].dtype) != 2)
      return Support::no("{} is not of 16 bits", tensor(kQNope));
    if (p.dims[kR] % 128 != 0 || p.dims[kR] == 0 || p.dims[kR] > 512)
      return Support::no("latents have {} columns; expected a multiple of 128 up to 512",
                         p.dims[kR]);
    if (p.dims[kDr] % 32 != 0 || p.dims[kDr] > 64)
      return Support::no("rotary keys have {} columns; expected 0, 32 or 64", p.dims[kDr]);
    for (const int i : {kQNope, kQPe, kCkv, kKpe})
      if (!reads_wide(p.tensors[i], 16))
        return Support::no("rows of {} are not aligned to 16 bytes", tensor(i));
    if (!reads_wide(p.tensors[kO], 8))
      return Support::no("rows of {} are not aligned to 8 bytes", tensor(kO));
    if (!fits(q, preset(q)))
      return Support::no("a block has {} bytes of shared memory", q.device.shared_bytes_per_block);
    return supports_sizes(q);
  }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "tiles_fit", [copy](const Config& c) { return fits(copy, c); });
  }
  static Traits traits(const Query& q, const Config&) { return traits_of(q.problem); }
  static Config preset(const Query& q) {
    // H200, 4,096 keys (26 November 2026): 16 sequences with 128 heads take 180 µs with {32, 64,
    // 2}, 195 with {64, 32, 2}; with 16 heads 37.6 with {16, 64, 2}, 50.0 with {32, 64, 2}.
    const auto& d = q.problem.dims;
    const std::int64_t heads = d[kH];
    if (is_f8(q.problem.tensors[kCkv].dtype)) {
      // Two blocks of a multiprocessor hide each other's barriers: 16 sequences of 4,096 keys take
      // 155.7 µs with {32, 32, 2, 2} and 169 with {32, 64, 2} (128 heads), 29.2 with {16, 64, 2, 2}
      // and 35.2 with {16, 64, 3} (16 heads). Few tiles have larger ones or more in flight: 1
      // sequence of 32,768 keys and 16 heads 26.6 and 23.5 (29 November 2026).
      const std::int32_t rows = heads > 16 ? 32 : 16;
      const std::int64_t tiles = d[kT] * ((heads + rows - 1) / rows) * d[kW] * d[kPage] / 64;
      const Config best = tiles > 4 * q.device.units ? Config{rows, heads > 16 ? 32 : 64, 2, 2}
                          : heads > 16               ? Config{32, 64, 2}
                                                     : Config{16, 64, 3};
      if (fits(q, best)) return best;
    }
    for (const Config& c :
         {Config{32, 64, 2}, Config{16, 64, 2}, Config{32, 32, 3}, Config{32, 32, 2}})
      if (fits(q, c) && (c.rows < 2 * heads || c.rows == 16)) return c;
    return {32, 32, 2};
  }

  static std::int64_t blocks_of(const Config& c, std::int64_t heads) {
    return (heads + c.rows - 1) / c.rows;
  }
  static std::int64_t all_parts(const State& s, const std::int64_t* sizes) {
    const std::int64_t units = sizes[kT] * blocks_of(s.config, sizes[kH]);
    return parts_of(sizes, s.units * s.config.blocks / std::max<std::int64_t>(1, units),
                    s.config.keys);
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    // Rows to store: those of as many blocks as run at a time, or of one part.
    return part_bytes(
        std::max<std::int64_t>(std::int64_t{s.units} * s.config.blocks * s.config.rows,
                               q.problem.dims[kT] * q.problem.dims[kH]),
        s.traits);
  }

  static double milliseconds(const Query& q, const Config&) {
    const auto& d = q.problem.dims;
    const bool codes = is_f8(q.problem.tensors[kCkv].dtype);
    // H200, 128 sequences of 4,096 keys: 243 µs with 16 heads and 1,306 with 128; of f8 176 and
    // 1,108 (29 November 2026), where a power is one number.
    const double part = codes ? 0.42 : 0.6;     // of memory's rate
    const double matrix = codes ? 0.12 : 0.15;  // of the tensor cores' rate
    constexpr double kAnswered = 0.75;          // of lengths up to the table's end
    const auto rows = static_cast<double>((d[kH] + 15) / 16 * 16);
    const double operations = 2 * kAnswered * static_cast<double>(d[kT] * d[kW] * d[kPage]) * rows *
                              static_cast<double>((codes ? 2 : 3) * d[kR] + d[kDr]);
    return 1e3 * (2 * launch_s(q.device) +
                  std::max(kAnswered * bytes_of(q.problem) / (part * memory_bytes_per_s(q.device)),
                           operations / (matrix * flops(q.device, DType::kBF16))));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{kInclude, kernels::cuda_entry<Form>(kEntry, s), s.shared_bytes},
            join_source(kInclude, s.traits)};
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return shared_bytes_of(s.traits, s.config);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const std::int64_t heads = args.letters[kT] * args.letters[kH];
    if (heads == 0) return 0;
    MlaParams p = params_of(args);
    const std::int64_t blocks = blocks_of(s.config, args.letters[kH]);
    p.blocks = static_cast<std::int32_t>(blocks);
    set_parts(p, all_parts(s, args.letters), heads, s.traits, workspace);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(args.letters[kT] * blocks * p.parts);
    how.block.x = 256;
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    const int code = cuda::launch(*kernel.entries[0], how, p, context.stream);
    if (code != 0 || p.parts == 1) return code;
    return launch_join(context, *kernel.entries[1], p, s.traits, s.dependent);
  }
};

struct WgmmaForm : kernels::CudaForm<MlaTraits, MlaWgmmaConfig> {
  static constexpr const char* kInclude = "ops/attention/mla_decode_lse/mla_wgmma.cuh";
  static constexpr const char* kEntry = "dlblas::attention::mla_wgmma";
  static constexpr const char* kConfigName = "dlblas::attention::MlaWgmmaConfig";
  static constexpr bool kHopper = true;
  static constexpr bool kIsDeterministic = false;
  static constexpr bool kDependent = true;
  static constexpr int kRows = 64, kStages = 2;
  /// Equals keys_of in mla_wgmma.cuh.
  static std::int32_t keys_of(const MlaTraits& s) { return is_f8(s.cache) ? 48 : 64; }

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::least>("least", {1, 2, 4, 8, 16}),
                                field<&Config::cluster>("cluster", {1, 2})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return mla::traits_table(); }
  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (size_of(p.tensors[kQNope].dtype) != 2)
      return Support::no("{} is not of 16 bits", tensor(kQNope));
    const std::int64_t r = p.dims[kR], dr = p.dims[kDr];
    if (r != 128 && r != 256 && r != 512)
      return Support::no("latents have {} columns; expected 128, 256 or 512", r);
    if (dr != 0 && dr != 64) return Support::no("rotary keys have {} columns; expected 64", dr);
    const bool codes = is_f8(p.tensors[kCkv].dtype);
    if ((p.dims[kPage] % 8 != 0 && !codes) || p.dims[kPage] == 0)
      return Support::no("pages have {} keys; expected a multiple of 8", p.dims[kPage]);
    for (const int i : {kQNope, kQPe, kCkv, kKpe}) {
      if (!reads_wide(p.tensors[i], 16))
        return Support::no("rows of {} are not aligned to 16 bytes", tensor(i));
      if (is_broadcast(p.tensors[i].layout) && (i == kQNope || i == kQPe || !codes))
        return Support::no("{} is broadcast", tensor(i));
    }
    if (!reads_wide(p.tensors[kO], 8))
      return Support::no("rows of {} are not aligned to 8 bytes", tensor(kO));
    return supports_sizes(q);
  }
  static Traits traits(const Query& q, const Config&) { return traits_of(q.problem); }
  static Config preset(const Query&) { return {}; }
  static double milliseconds(const Query& q, const Config&) {
    const auto& d = q.problem.dims;
    const bool codes = is_f8(q.problem.tensors[kCkv].dtype);
    // cuda_decode is faster in the shortest calls: the first tile costs this kernel more. H200, 30
    // November 2026, 4,096 keys: 10.3 µs here and 10.7 there for 1 sequence and 16 heads, 13.9 and
    // 15.2 for 4; of f8 18.1 and 19.1 for 1 with 128 heads, 11.9 and 9.9 with 16.
    const double start = codes ? 6.5e-6 : 2e-7;
    const double part = codes ? 0.37 : 0.8;     // of memory's rate
    const double matrix = codes ? 0.44 : 0.66;  // of the tensor cores' rate
    constexpr double kAnswered = 0.75;          // of lengths up to the table's end
    const auto rows = static_cast<double>((d[kH] + kRows - 1) / kRows * kRows);
    const double operations = 2 * kAnswered * static_cast<double>(d[kT] * d[kW] * d[kPage]) * rows *
                              static_cast<double>(2 * d[kR] + d[kDr]);
    return 1e3 * (2 * launch_s(q.device) + start +
                  std::max(kAnswered * bytes_of(q.problem) / (part * memory_bytes_per_s(q.device)),
                           operations / (matrix * flops(q.device, DType::kBF16))));
  }

  static std::int64_t blocks_of(std::int64_t heads) { return (heads + kRows - 1) / kRows; }
  /// The parts of a sequence: clusters whose parts mla_join joins, and in each, one or two blocks.
  struct Split {
    std::int64_t clusters, blocks;
  };
  /// The fastest one by a model of H200, in quarters of the time of a tile of keys. Several
  /// clusters only in a single wave of blocks, which bounds the workspace. µs, clusters × blocks,
  /// 4,096 keys, 30 November 2026: 128 heads of 100 sequences 218 in 1 × 1, 237 in 1 × 2; of 70 214
  /// and 179; of 20 51.4 in 3 × 1, 60.1 in 1 × 2; of 16 42.8 in 4 × 1, 42.4 in 2 × 2; of 8 30.4 in
  /// 8 × 1, 27.6 in 4 × 2; 16 heads of 16 27.8 in 8 × 1, 29.2 in 4 × 2; of 1, 32,768 keys, 23.5 in
  /// 132 × 1, 21.3 in 66 × 2.
  static Split split_of(const State& s, const std::int64_t* sizes) {
    const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const std::int64_t rows = sizes[kT] * sizes[kH], units = sizes[kT] * blocks_of(sizes[kH]);
    const std::int64_t tiles =
        std::max<std::int64_t>(1, up(sizes[kW] * sizes[kPage], keys_of(s.traits)));
    const std::int64_t most = std::max<std::int64_t>(1, tiles / s.config.least);
    Split best{1, 1};
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t blocks = 1; blocks <= std::min<std::int64_t>(most, s.config.cluster);
         ++blocks)
      for (const std::int64_t clusters :
           {std::int64_t{1}, std::min(s.units / (units * blocks), most / blocks)}) {
        if (clusters < 1) continue;
        // Blocks take 7 tiles more; a join 3, and what grows with its rows and with a row's parts.
        const std::int64_t waves = up(units * clusters * blocks, s.units);
        std::int64_t cost = 4 * waves * (up(tiles, clusters * blocks) + 7) + (blocks > 1 ? 2 : 0);
        if (clusters > 1) cost += 12 + rows * clusters / 1024 + clusters / 8;
        if (clusters > kMlaFew) cost += 4 * (up(rows, 2 * std::int64_t{s.units}) - 1);
        if (cost < least) least = cost, best = {clusters, blocks};
      }
    return best;
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    return part_bytes(std::max<std::int64_t>(std::int64_t{s.units} * kRows,
                                             q.problem.dims[kT] * q.problem.dims[kH]),
                      s.traits);
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    // Queries, stages of keys, 64 keys of codes that wait to be widened, and powers, which have the
    // place of rotary columns where there are any; 6 floats a row, and barriers.
    const std::int32_t keys = kStages * keys_of(s.traits);
    const std::int32_t rows = kRows + keys + (is_f8(s.traits.cache) ? 32 : 0);
    return 1024 + rows * (s.traits.latent + s.traits.rotary) * 2 +
           (s.traits.rotary == 0 ? keys * 128 : 0) + kRows * 6 * 4 + 256;
  }

  /// Reversed rows have no tensor map: cuda_decode's kernel stands in where a call may have them.
  static bool may_lie_otherwise(const Query& q) {
    const bool codes = is_f8(q.problem.tensors[kCkv].dtype);
    for (const int i : {kQNope, kQPe, kCkv, kKpe})
      if (q.problem.tensors[i].layout != Layout::kContiguous &&
          (i == kQNope || i == kQPe || !codes))
        return true;
    return false;
  }
  static Form::State other_state(const State& s) {
    Form::State other{s.user, s.traits, {32, 32, 2, 1}, 0, s.units, s.dependent};
    other.shared_bytes = shared_bytes_of(s.traits, other.config);
    return other;
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    std::vector<KernelSource> made{
        {kInclude, kernels::cuda_entry<WgmmaForm>(kEntry, s), s.shared_bytes},
        join_source(Form::kInclude, s.traits)};
    if (may_lie_otherwise(q)) {
      const Form::State other = other_state(s);
      made.push_back(
          {Form::kInclude, kernels::cuda_entry<Form>(Form::kEntry, other), other.shared_bytes});
    }
    return made;
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }

  /// A map of columns, rows, and sets of rows. False if the copy engine cannot walk it.
  static bool encode(TensorMap& map, const TensorView& t, const std::int64_t (&sizes)[3],
                     std::int64_t box_rows) {
    const std::int64_t steps[3] = {1, t.strides[1], t.strides[0]};
    cuda::TensorMapSpec spec;
    spec.dtype = t.dtype, spec.data = t.data, spec.rank = 3;
    for (int i = 0; i < 3; ++i) {
      spec.sizes[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, sizes[i]));
      spec.box[i] = i == 0 ? 64 : i == 1 ? static_cast<std::uint32_t>(box_rows) : 1;
      if (i == 0) continue;
      const std::int64_t step = sizes[i] <= 1 ? sizes[0] : steps[i];
      if (step <= 0 || step % 8 != 0 || step >= std::int64_t{1} << 38) return false;
      spec.strides_bytes[i - 1] = static_cast<std::uint64_t>(step * 2);
    }
    return cuda::encode_tensor_map(map, spec) == 0;
  }
  static bool encode_all(MlaWgmmaParams& g, const Args& args) {
    const std::int64_t* d = args.letters;
    const std::int64_t box = std::min<std::int64_t>(64, d[kPage] & -d[kPage]);
    if (d[kP] == 0) return true;                         // no key, no copy
    const bool codes = is_f8(args.tensors[kCkv].dtype);  // copied row by row, without a map
    const bool made = encode(g.q_nope, args.tensors[kQNope], {d[kR], d[kH], d[kT]}, kRows) &&
                      (codes || encode(g.ckv, args.tensors[kCkv], {d[kR], d[kPage], d[kP]}, box));
    if (!made || d[kDr] == 0) return made;
    return encode(g.q_pe, args.tensors[kQPe], {d[kDr], d[kH], d[kT]}, kRows) &&
           (codes || encode(g.kpe, args.tensors[kKpe], {d[kDr], d[kPage], d[kP]}, box));
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const std::int64_t heads = args.letters[kT] * args.letters[kH];
    if (heads == 0) return 0;
    MlaWgmmaParams g{};
    g.p = params_of(args);
    const std::int64_t blocks = blocks_of(args.letters[kH]);
    g.p.blocks = static_cast<std::int32_t>(blocks);
    const Split split = split_of(s, args.letters);
    set_parts(g.p, split.clusters, heads, s.traits, workspace);
    cuda::Launch how;
    how.dependent = s.dependent;
    int code = 0;
    if (encode_all(g, args)) {
      how.grid.x = static_cast<unsigned>(args.letters[kT] * blocks * split.clusters * split.blocks);
      how.block.x = 384;
      how.cluster = static_cast<unsigned>(split.blocks);
      how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
      code = cuda::launch(*kernel.entries[0], how, g, context.stream);
    } else {
      const Form::State other = other_state(s);
      g.p.blocks = static_cast<std::int32_t>(Form::blocks_of(other.config, args.letters[kH]));
      how.grid.x = static_cast<unsigned>(args.letters[kT] * g.p.blocks * g.p.parts);
      how.block.x = 256;
      how.shared_bytes = static_cast<unsigned>(other.shared_bytes);
      code = cuda::launch(*kernel.entries[2], how, g.p, context.stream);
    }
    if (code != 0 || g.p.parts == 1) return code;
    return launch_join(context, *kernel.entries[1], g.p, s.traits, s.dependent);
  }
};

}  // namespace

Implementation cuda_decode() {
  return kernels::make_cuda<Form>(
      "cuda_decode", source_hash<"ops/attention/mla_decode_lse/mla_decode_cuda.cpp">());
}

Implementation cuda_wgmma() {
  return kernels::make_cuda<WgmmaForm>(
      "cuda_wgmma", source_hash<"ops/attention/mla_decode_lse/mla_decode_cuda.cpp">());
}

}  // namespace dlblas::attention::mla
