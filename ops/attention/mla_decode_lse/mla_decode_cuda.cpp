// mla_decode_lse on tensor cores: parts of the keys, joined by a second kernel where there are
// several. In: Problem, Config; Args. Out: Kernel and its sources; launches. Flow: call > validate
// > [select] > [compile] > [launch].  Read next: mla_decode.cuh.
#include "ops/attention/mla_decode_lse/mla_cuda.hpp"

namespace dlblas::attention::mla {
namespace {

/// mla_decode.cuh's mla_shared_bytes.
std::int32_t shared_bytes_of(const MlaTraits& s, const MlaDecodeConfig& c) {
  const auto pitch = [](std::int32_t columns) { return (columns / 8 | 1) * 16; };
  return (c.rows + c.stages * c.keys) * pitch(s.latent + s.rotary) + c.rows * (c.keys + 4) * 4 +
         2 * c.rows * pitch(c.keys);
}

struct Form : kernels::CudaForm<MlaTraits, MlaDecodeConfig> {
  static constexpr const char* kInclude = "ops/attention/mla_decode_lse/mla_decode.cuh";
  static constexpr const char* kEntry = "dlblas::attention::mla_decode";
  static constexpr const char* kJoin = "dlblas::attention::mla_join";
  static constexpr const char* kConfigName = "dlblas::attention::MlaDecodeConfig";
  // The number of parts, which sets the order of sums, is that of the batch.
  static constexpr bool kIsDeterministic = false;
  static constexpr bool kDependent = true;  // mla_join

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{field<&Config::rows>("rows", {16, 32, 64}),
                                                       field<&Config::keys>("keys", {32, 64}),
                                                       field<&Config::stages>("stages", {2, 3, 4})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return mla::traits_table(); }

  static bool fits(const Query& q, const Config& c) {
    const std::int32_t bytes = shared_bytes_of(traits_of(q.problem), c) + 1024;
    return c.rows / 16 * (c.keys / 8) >= 8 && bytes <= q.device.shared_bytes_per_block;
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
    const std::int64_t heads = q.problem.dims[kH];
    for (const Config& c : {Config{64, 32, 3}, Config{64, 32, 2}, Config{32, 64, 2},
                            Config{32, 32, 3}, Config{16, 64, 2}, Config{32, 32, 2}})
      if (fits(q, c) && (c.rows < 2 * heads || c.rows == 16)) return c;
    return {32, 32, 2};
  }

  static std::int64_t blocks_of(const Config& c, std::int64_t heads) {
    return (heads + c.rows - 1) / c.rows;
  }
  static std::int64_t parts_of(const State& s, const std::int64_t* sizes) {
    const std::int64_t units =
        std::max<std::int64_t>(1, sizes[kT] * blocks_of(s.config, sizes[kH]));
    const std::int64_t tiles = (sizes[kW] * sizes[kPage] + s.config.keys - 1) / s.config.keys;
    return std::max<std::int64_t>(1, std::min(s.units / units, tiles));
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    // Rows that are stored: those of as many blocks as the device has units, or one part.
    const std::int64_t rows = std::max<std::int64_t>(std::int64_t{s.units} * s.config.rows,
                                                     q.problem.dims[kT] * q.problem.dims[kH]);
    return static_cast<std::size_t>(rows * (s.traits.latent + 1)) * 4;
  }

  static double milliseconds(const Query& q, const Config&) {
    const auto& d = q.problem.dims;
    constexpr double kPart = 0.6;       // of memory's rate
    constexpr double kMatrix = 0.15;    // of the tensor cores' rate
    constexpr double kAnswered = 0.75;  // of lengths up to the table's end
    const auto rows = static_cast<double>((d[kH] + 15) / 16 * 16);
    const double operations = 2 * kAnswered * static_cast<double>(d[kT] * d[kW] * d[kPage]) * rows *
                              static_cast<double>(3 * d[kR] + d[kDr]);
    return 1e3 * (2 * launch_s(q.device) +
                  std::max(kAnswered * bytes_of(q.problem) / (kPart * memory_bytes_per_s(q.device)),
                           operations / (kMatrix * flops(q.device, DType::kBF16))));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{kInclude, kernels::cuda_entry<Form>(kEntry, s), s.shared_bytes},
            {kInclude, kernels::cuda_entry<Form>(kJoin, s), 0}};
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
    p.parts = static_cast<std::int32_t>(parts_of(s, args.letters));
    p.part_o = static_cast<float*>(workspace);
    p.part_lse = p.part_o + heads * p.parts * s.traits.latent;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(args.letters[kT] * blocks * p.parts);
    how.block.x = 256;
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    const int code = cuda::launch(*kernel.entries[0], how, p, context.stream);
    if (code != 0 || p.parts == 1) return code;
    cuda::Launch join;
    join.grid.x = static_cast<unsigned>(heads);
    join.block.x = static_cast<unsigned>(s.traits.latent / 4);
    join.dependent = s.dependent;
    return cuda::launch(*kernel.entries[1], join, p, context.stream);
  }
};

}  // namespace

Implementation cuda_decode() {
  return kernels::make_cuda<Form>("cuda_decode",
                                  source_hash("ops/attention/mla_decode_lse/mla_decode_cuda.cpp"));
}

}  // namespace dlblas::attention::mla
