// paged_attention_lse on tensor cores: a kernel over parts of the keys, and a second one that joins
// them if there are several. In: Problem, Config; Args. Out: Kernel and its sources; launches.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: paged_decode.cuh.
#include "ops/attention/cuda/join_parts_config.hpp"
#include "ops/attention/paged_attention_lse/paged_cuda.hpp"

namespace dlblas::attention::paged {
namespace {

struct Form : kernels::CudaForm<PagedTraits, PagedDecodeConfig> {
  static constexpr const char* kInclude = "ops/attention/paged_attention_lse/paged_decode.cuh";
  static constexpr const char* kEntry = "dlblas::attention::paged_decode";
  static constexpr const char* kJoin = "dlblas::attention::paged_join";
  static constexpr const char* kConfigName = "dlblas::attention::PagedDecodeConfig";
  // The number of parts, and with it the order of sums, depends on the batch.
  static constexpr bool kIsDeterministic = false;
  static constexpr bool kDependent = true;   // paged_join
  static constexpr std::int64_t kWaves = 4;  // of blocks, at most, where keys go in parts

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::warps>("warps", {2, 4, 8}),
                                field<&Config::heads>("heads", {1, 2, 4, 8}),
                                field<&Config::keys>("keys", {16, 32}),
                                field<&Config::stages>("stages", {2, 3, 4, 6}),
                                field<&Config::blocks>("blocks", {1, 2, 3, 4}),
                                field<&Config::bulk>("bulk", {0, 1})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return paged::traits_table(); }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    const DType type = p.tensors[kQ].dtype, cache = p.tensors[kKCache].dtype;
    if (size_of(type) != 2) return Support::no("{} is not of 16 bits", tensor(kQ));
    const std::int64_t step = is_f8(cache) ? 32 : 16;
    for (const Letter letter : {kD, kDv})
      if (p.dims[letter] % step != 0 || p.dims[letter] == 0 || p.dims[letter] > 256)
        return Support::no("heads have {} columns; expected a multiple of {} up to 256",
                           p.dims[letter], step);
    for (const int i : {kQ, kKCache, kVCache})
      if (!reads_wide(p.tensors[i], 16))
        return Support::no("rows of {} are not aligned to 16 bytes", tensor(i));
    if (!reads_wide(p.tensors[kO], 8))
      return Support::no("rows of {} are not aligned to 8 bytes", tensor(kO));
    if (p.dims[kB] == 0) return Support::no("there are no sequences");
    if (!fits(q, {2, 1, 16, 2, 1, false}))
      return Support::no("a block has {} bytes of shared memory", q.device.shared_bytes_per_block);
    return supports_sizes(q);
  }
  static bool fits(const Query& q, const Config& c) {
    const Traits s = traits(q, c);
    const bool divides = c.warps % c.heads == 0 && q.problem.dims[kHkv] % c.heads == 0;
    // A block's reserved kilobyte, and its maxima and sums.
    const std::int32_t bytes = c.warps * decode_warp_bytes(s, c) + 2048;
    return divides && (!c.bulk || q.device.arch >= 90) &&
           bytes <= q.device.shared_bytes_per_block &&
           bytes * c.blocks <= q.device.shared_bytes_per_unit;
  }
  static bool has_registers(const Query& q, const Config& c) {
    // Per thread: sums, queries and about 70 more.
    const Traits s = traits(q, c);
    const std::int64_t wanted = decode_rows(s) / 8 * (s.width / 4 + s.depth / 8) + 70;
    if (c.keys > 16 && wanted > 200) return false;
    return c.warps * c.blocks * 32 * std::min<std::int64_t>(wanted, 255) <= 65536;
  }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "ring_fits",
                  [copy](const Config& c) { return fits(copy, c) && has_registers(copy, c); });
  }
  static Traits traits(const Query& q, const Config&) {
    Traits s = traits_of(q.problem);
    s.access = 8;
    return s;
  }
  static Config preset(const Query& q) {
    // H200, 32 heads on 8, bf16, pages of 16 (26 November 2026; docs/notes/attention_gpu.md). Where
    // one block per multiprocessor occupies nearly all of them: four tiles in flight (16 sequences
    // of 8,192: 128.5 µs; two blocks with three tiles 130.8), three if there are few tiles (1
    // sequence of 8,192: 13.1 against 13.6). Else two blocks (64 of 2,048: 129.4 against 133.9).
    const std::int64_t units = units_of(traits_of(q.problem), q.problem.dims);
    const std::int64_t each = units > 0 ? q.device.units / units : 0;
    const bool one = each * units * 8 >= std::int64_t{q.device.units} * 7;
    const std::int64_t tiles =
        q.problem.dims[kW] * q.problem.dims[kPage] / (64 * std::max<std::int64_t>(1, each));
    for (const Config& c : {one ? Config{4, 1, 16, tiles <= 16 ? 3 : 4, 1} : Config{4, 1, 16, 3, 2},
                            Config{4, 1, 16, 2, 2}, Config{4, 1, 16, 3, 1}, Config{4, 1, 16, 2, 1},
                            Config{2, 1, 16, 3, 1}})
      if (fits(q, c) && has_registers(q, c)) return c;
    return {2, 1, 16, 2, 1};
  }

  /// Tiles of queries times heads of the cache.
  static std::int64_t units_of(const PagedTraits& s, const std::int64_t* sizes) {
    const std::int64_t rows = decode_rows(s);
    const std::int64_t tiles = s.ragged ? sizes[kT] * s.group / rows + sizes[kB] + 1
                                        : sizes[kB] * ((s.group + rows - 1) / rows);
    return tiles * sizes[kHkv];
  }
  /// Units that run at the same time.
  static std::int64_t slots_of(const State& s) {
    return std::int64_t{s.units} * s.config.blocks * s.config.heads;
  }
  /// Parts of each sequence's keys: as many as fill one wave of blocks. If that leaves a tenth of
  /// the wave empty, or of the last wave of several, more and shorter parts. H200: a wave that is
  /// 0.48 full takes 0.58 of a full one's time, 0.73 full 0.85. With a window, the table's length
  /// says little.
  static std::int64_t parts_of(const State& s, const std::int64_t* sizes) {
    const std::int64_t units = std::max<std::int64_t>(1, units_of(s.traits, sizes));
    const std::int64_t slots = slots_of(s), length = sizes[kW] * sizes[kPage];
    const std::int64_t keys = s.config.keys * (s.config.warps / s.config.heads);
    const std::int64_t most = (length + keys - 1) / keys;
    const std::int64_t one = std::max<std::int64_t>(1, std::min(slots / units, most));
    const bool full = one * units <= slots && one * units * 10 >= slots * 9;
    if (full || s.traits.ragged || s.traits.window) return one;
    constexpr double kStart = 45, kJoin = 75;  // in keys of a block: some 1.5 and 2.5 µs
    const auto keys_met = [&](std::int64_t parts) {
      const std::int64_t blocks = units * parts;
      const double rest = static_cast<double>(blocks % slots) / static_cast<double>(slots);
      const double waves =
          static_cast<double>(blocks / slots) + (rest > 0 ? std::clamp(1.17 * rest, 0.55, 1.0) : 0);
      const double each = static_cast<double>(length) / static_cast<double>(parts) + kStart;
      return waves * each + (parts > 1 ? kJoin : 0);
    };
    std::int64_t best = one;
    for (std::int64_t parts = one + 1; parts <= std::min(kWaves * slots / units, most); ++parts)
      if (keys_met(parts) < keys_met(best)) best = parts;
    return best;
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    const std::int64_t blocks = slots_of(s) * (s.traits.ragged ? 1 : kWaves);
    const std::int64_t rows =
        std::max(blocks, units_of(s.traits, q.problem.dims)) * decode_rows(s.traits);
    return static_cast<std::size_t>(rows * (s.traits.width + 1)) * 4;
  }

  static double milliseconds(const Query& q, const Config&) {
    const auto& d = q.problem.dims;
    constexpr double kPart = 0.85;      // of memory's rate
    constexpr double kMatrix = 0.1;     // of the tensor cores' rate
    constexpr double kAnswered = 0.75;  // of lengths up to the table's end
    const double bytes = kAnswered * bytes_of(q.problem);
    const PagedTraits s = traits_of(q.problem);
    const double rows =
        s.ragged ? static_cast<double>(d[kT] * s.group + d[kB] * decode_rows(s))
                 : static_cast<double>(d[kB] * std::max<std::int64_t>(decode_rows(s), s.group));
    const double operations = 2 * kAnswered * rows * static_cast<double>(d[kW] * d[kPage]) *
                              static_cast<double>(d[kHkv] * (d[kD] + 2 * d[kDv]));
    return 1e3 * (2 * launch_s(q.device) +
                  std::max(bytes / (kPart * memory_bytes_per_s(q.device)),
                           operations / (kMatrix * flops(q.device, DType::kBF16))));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{kInclude, kernels::cuda_entry<Form>(kEntry, s), s.shared_bytes},
            {kInclude, kernels::cuda_entry<Form>(kJoin, s), 0}};
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.warps * decode_warp_bytes(s.traits, s.config);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const std::int64_t units = units_of(s.traits, args.letters);
    if (units == 0 || args.letters[kT] == 0) return 0;
    PagedParams p = params_of(args, s.traits);
    p.parts = static_cast<std::int32_t>(parts_of(s, args.letters));
    const std::int64_t rows = decode_rows(s.traits);
    p.part_o = static_cast<float*>(workspace);
    p.part_lse = p.part_o + units * p.parts * rows * s.traits.width;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(units / s.config.heads * p.parts);
    how.block.x = static_cast<unsigned>(s.config.warps * 32);
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    const int code = cuda::launch(*kernel.entries[0], how, p, context.stream);
    if (code != 0 || p.parts == 1) return code;
    const bool few = !s.traits.ragged && s.traits.group < rows;
    cuda::Launch join;
    join.grid.x = static_cast<unsigned>(units * (few ? s.traits.group : rows));
    join.block.x = static_cast<unsigned>(join_threads(s.traits.width));
    join.dependent = s.dependent;
    return cuda::launch(*kernel.entries[1], join, p, context.stream);
  }
};

}  // namespace

Implementation cuda_decode() {
  return kernels::make_cuda<Form>(
      "cuda_decode", source_hash<"ops/attention/paged_attention_lse/paged_decode_cuda.cpp">());
}

}  // namespace dlblas::attention::paged
