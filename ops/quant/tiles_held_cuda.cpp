// Scales over tiles that are read once, on NVIDIA GPUs: one block per tile of 128 by 128, or the
// blocks of a cooperative grid, which wait for each other. Serves rows at one stride;
// tiles_cuda.cpp serves the rest. In: Problem, Config; Args. Out: Kernel and its source; launches.
// Flow: call > validate > [select] > [compile] > [launch]. Read next: ops/quant/tiles_held.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/common/quant_ref.hpp"
#include "ops/quant/tiles.hpp"

namespace dlblas::quant::tiles {
namespace {

constexpr std::int64_t kMaxTiles = std::int64_t{1} << 30;  // counted by an int

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double elements_of(const Problem& problem) {
  return static_cast<double>(problem.dims[kT]) * static_cast<double>(problem.dims[kK]);
}
double bytes_of(const Problem& problem) {
  return elements_of(problem) * (size_of(problem.tensors[kX].dtype) + 1);
}

bool has_one_stride(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
}
bool is_packed(const TensorView& t) {
  const Rows all = rows_of(t, 0);
  return all.rank == 1 && all.stride <= 1;
}

/// Requires rows at one stride, and accesses of at least `access_bytes` bytes.
Support supports_rows(const Query& q, int access_bytes) {
  const Problem& problem = q.problem;
  if (!has_one_stride(problem.tensors[kX]) || !has_one_stride(problem.tensors[kQ]))
    return Support::no("rows of {} and {} are not at one stride", tensor(kX), tensor(kQ));
  const QuantTilesTraits s = cuda_traits(problem, q.user<QuantTile>());
  const std::int64_t bytes = s.access * size_of(s.type);
  if (!s.aligned || bytes < access_bytes)
    return Support::no("accesses of {} bytes; expected {}", bytes, access_bytes);
  return Support::yes();
}

template <typename ConfigType>
struct HeldForm : kernels::CudaForm<QuantTilesTraits, ConfigType> {
  static const TraitsTable<QuantTilesTraits>& traits_table() { return cuda_traits_table(); }
  static QuantTilesTraits traits(const Query& q, const ConfigType&) {
    return cuda_traits(q.problem, q.user<QuantTile>());
  }

  static QuantHeldParams params_of(const Args& args, int tile_rows) {
    const TensorView &x = args.tensors[kX], &q = args.tensors[kQ], &scale = args.tensors[kScale];
    QuantHeldParams p{};
    p.x = x.data, p.q = q.data, p.scale = scale.data;
    p.x_row = rows_of(x).stride, p.q_row = rows_of(q).stride;
    if (scale.rank > 1) p.scale_row = scale.strides[0];
    if (scale.rank > 0) p.scale_column = scale.strides[scale.rank - 1];
    p.rows = args.letters[kT];
    p.width = args.letters[kK];
    p.total = p.rows * p.width;
    p.largest = static_cast<float>(largest_of(q.dtype));
    p.powers = args.scalars[kScaleDtype].i;
    cut(p, tile_rows);
    return p;
  }
  /// Cuts x into tiles of 128 columns, at least one along a column.
  static void cut(QuantHeldParams& p, int tile_rows) {
    p.down = static_cast<std::int32_t>(std::max<std::int64_t>(1, ceil_div(p.rows, tile_rows)));
    p.across = static_cast<std::int32_t>(ceil_div(p.width, kQuantBlock));
    p.tiles = p.down * p.across;
  }
};

// ---- cuda_registers ----------------------------------------------------------------------------

struct Registers : HeldForm<QuantRegistersConfig> {
  static constexpr const char* kInclude = "ops/quant/tiles_held.cuh";
  static constexpr const char* kEntry = "dlblas::quant::quantize_registers";
  static constexpr const char* kConfigName = "dlblas::quant::QuantRegistersConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::threads>("threads", {128, 256, 512, 1024}),
        field<&Config::blocks>("blocks", {1, 2, 3, 4, 5}),
    };
    return *knobs;
  }

  static bool is_narrow(const QuantTilesTraits& s) { return s.access * size_of(s.type) <= 4; }
  /// Each thread holds its words of a tile and 28 other registers; 36 if each word has its own
  /// address.
  static bool fits(const QuantTilesTraits& s, const Config& c) {
    constexpr int kRegisters = 65536;
    const int most = std::min(255, kRegisters / (c.threads * c.blocks) / 8 * 8);
    const int words = kQuantBlock * kQuantBlock * size_of(s.type) / 4 / c.threads;
    return words + (is_narrow(s) ? 36 : 28) <= most && c.threads >= quant_held_lanes(s);
  }

  static Support supports(const Query& q) {
    if (const Support rows = supports_rows(q, 4); !rows) return rows;
    const std::int64_t* const dims = q.problem.dims;
    if (ceil_div(dims[kT], kQuantBlock) * ceil_div(dims[kK], kQuantBlock) >= kMaxTiles)
      return Support::no("more than {} tiles", kMaxTiles);
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "registers hold a tile",
                  [s = traits(q, {})](const Config& c) { return fits(s, c); });
  }

  static Config preset(const Query& q) {
    const bool wide = size_of(q.problem.tensors[kX].dtype) == 4;
    if (is_narrow(traits(q, {}))) return wide ? Config{1024, 1} : Config{512, 2};
    return wide ? Config{512, 2} : Config{256, 4};
  }
  static double milliseconds(const Query& q, const Config&) {
    constexpr double kShare = 0.98;  // of what memory sustains: 94 µs at 7168×18432, H200, Nov 2026
    return 1e3 *
           (launch_s(q.device) + bytes_of(q.problem) / (kShare * memory_bytes_per_s(q.device)));
  }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    if (args.letters[kT] == 0 || args.letters[kK] == 0) return 0;
    const QuantHeldParams p = params_of(args, kQuantBlock);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(p.tiles);
    how.block.x = static_cast<unsigned>(kernel.load<State>().config.threads);
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

// ---- cuda_grid ---------------------------------------------------------------------------------

struct Grid : HeldForm<QuantGridConfig> {
  static constexpr const char* kConfigName = "dlblas::quant::QuantGridConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::threads>("threads", {128, 256, 512}),
        field<&Config::loads>("loads", {4, 8, 16}),
        field<&Config::stages>("stages", {2, 3, 4, 6}),
        field<&Config::blocks>("blocks", {1, 2, 3, 4}),
    };
    return *knobs;
  }

  static std::int64_t ring_bytes(const Config& c) {
    return std::int64_t{16} * c.threads * c.loads * c.stages;
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return static_cast<std::int32_t>(ring_bytes(s.config));
  }
  /// True if a multiprocessor's shared memory and registers hold the blocks, and the grid holds all
  /// blocks that wait for each other.
  static bool fits(const Query& q, const Config& c) {
    constexpr std::int64_t kReserved = 1024;  // of a block, by the driver
    const bool channel = q.user<QuantTile>() == QuantTile::kChannel;
    const std::int64_t own =
        channel ? kQuantBlock * (c.threads / 32 + 1) * 4 : std::int64_t{c.threads} / 32 * 4;
    const std::int64_t bytes = ring_bytes(c) + own;
    if (bytes > q.device.shared_bytes_per_block) return false;
    if ((bytes + kReserved) * c.blocks > q.device.shared_bytes_per_unit) return false;
    if (c.threads * c.blocks > 1024) return false;  // 64 registers each
    if (!channel) return true;
    const std::int64_t down = ceil_div(q.problem.dims[kT], quant_grid_rows(traits(q, c), c));
    return down <= std::int64_t{q.device.units} * c.blocks;
  }
  /// The first that fits, in order of preference; threads = 0 if none does.
  static Config preset(const Query& q) {
    for (const Config& c :
         {Config{512, 8, 3, 1}, Config{256, 16, 3, 1}, Config{256, 8, 3, 2}, Config{256, 8, 2, 2},
          Config{256, 4, 3, 2}, Config{256, 16, 2, 1}, Config{512, 16, 2, 1}, Config{256, 4, 2, 1}})
      if (fits(q, c)) return c;
    return {.threads = 0};
  }

  static Support supports(const Query& q) {
    if (const Support rows = supports_rows(q, 16); !rows) return rows;
    const std::int64_t rows = q.problem.dims[kT], width = q.problem.dims[kK];
    const std::int64_t across = ceil_div(width, kQuantBlock), tiles = (rows / 8 + 1) * across;
    if (tiles >= kMaxTiles) return Support::no("more than {} tiles", kMaxTiles);
    if (preset(q).threads == 0) return Support::no("a column has {} rows: too many blocks", rows);
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "a grid of these blocks runs at once, and holds a column",
                  [q = QueryCopy(q)](const Config& c) { return fits(q, c); });
  }

  static double milliseconds(const Query& q, const Config& c) {
    const Problem& problem = q.problem;
    const bool tensor = q.user<QuantTile>() == QuantTile::kTensor;
    // Share of what memory sustains: 157 and 167 µs at 7168×18432, H200, Nov 2026. Blocks of a
    // column wait for each other.
    const double share = tensor ? 0.95 : 0.56;
    double bytes = bytes_of(problem);
    if (tensor) {
      const double kept = static_cast<double>(ring_bytes(c)) * c.blocks * q.device.units;
      bytes += std::max(0.0, elements_of(problem) * size_of(problem.tensors[kX].dtype) - kept);
    }
    return 1e3 * (1.5 * launch_s(q.device) + bytes / (share * memory_bytes_per_s(q.device)));
  }

  static std::int64_t most_blocks(const State& s) {
    return std::int64_t{s.units} * s.config.blocks;
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    if (s.traits.tile == QuantTile::kTensor)
      return static_cast<std::size_t>(most_blocks(s)) * sizeof(std::uint32_t);
    const std::int64_t width = q.problem.dims[kK];
    return static_cast<std::size_t>(width + ceil_div(width, kQuantBlock)) * sizeof(std::uint32_t);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    const char* const entry = s.traits.tile == QuantTile::kTensor
                                  ? "dlblas::quant::quantize_whole"
                                  : "dlblas::quant::quantize_channels";
    return {{"ops/quant/tiles_held.cuh", kernels::cuda_entry<Grid>(entry, s), s.shared_bytes}};
  }

  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const bool tensor = s.traits.tile == QuantTile::kTensor;
    const int tile_rows = quant_grid_rows(s.traits, s.config);
    QuantHeldParams p = params_of(args, tile_rows);
    if (tensor && is_packed(args.tensors[kX]) && is_packed(args.tensors[kQ])) {
      p.x_row = p.q_row = p.width = kQuantBlock;
      p.rows = ceil_div(p.total, kQuantBlock);
      cut(p, tile_rows);
    }
    if (p.tiles == 0 && !tensor) return 0;
    p.maxima = static_cast<std::uint32_t*>(workspace);
    p.arrived = p.maxima + p.width;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(std::clamp<std::int64_t>(p.tiles, 1, most_blocks(s)));
    how.block.x = static_cast<unsigned>(s.config.threads);
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.cooperative = true;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

Implementation cuda_held(QuantTile tile) {
  static constexpr QuantTile kTiles[] = {QuantTile::kTensor, QuantTile::kChannel,
                                         QuantTile::kBlock};
  const void* const user = &kTiles[static_cast<int>(tile)];
  const char* const hash = source_hash<"ops/quant/tiles_held_cuda.cpp">();
  return tile == QuantTile::kBlock ? kernels::make_cuda<Registers>("cuda_registers", hash, user)
                                   : kernels::make_cuda<Grid>("cuda_grid", hash, user);
}

}  // namespace dlblas::quant::tiles
