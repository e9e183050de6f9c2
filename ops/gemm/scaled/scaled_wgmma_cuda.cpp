// The scaled products on Hopper's 8-bit WGMMA: which configurations exist, their estimated times,
// and the launch. In: a Problem, later the Args of a call; codes not along K are copied. Out: a
// Kernel of one step. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// scaled_wgmma.cuh, device/gemm/wgmma_codes.cuh, docs/notes/gemm.md.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/scaled/scaled_cuda.hpp"

namespace dlblas::gemm::scaled {
namespace {

constexpr std::int64_t kStage = 64;  // pairs of codes along K

/// How a configuration divides a problem.
struct Grid {
  std::int64_t tiles_m, tiles_n, blocks, stages, waves;
  Grid(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device)
      : tiles_m(ceil_div(p.dims[kM], c.block_m)),
        tiles_n(ceil_div(p.dims[kN], c.block_n)),
        blocks((c.share == GemmShare::kB ? round_up(tiles_m, c.cluster) : tiles_m) *
               (c.share == GemmShare::kA ? round_up(tiles_n, c.cluster) : tiles_n)),
        stages(ceil_div(p.dims[kK], 2 * kStage)) {
    if (c.share == GemmShare::kK) blocks *= c.cluster, stages = ceil_div(stages, c.cluster);
    // Clusters of four leave the units of a GPC beyond a multiple of four idle: 120 of 132 work.
    const std::int64_t units = c.cluster == 4 ? device.units * 10 / 11 : device.units;
    waves = ceil_div(blocks, std::max<std::int64_t>(1, units / c.cluster * c.cluster));
  }
};

/// Each function is one constraint and reads only the knobs that its constraint names.
struct Rules {
  std::int64_t m, n, groups;
  bool many;    // values beside the sums: i8 that becomes f32 in the main loop, a bias of f32
  bool blocks;  // factors of rows and blocks beside them
  DeviceInfo device;

  Rules(const Problem& p, bool of_blocks, const DeviceInfo& on)
      : m(std::max<std::int64_t>(1, p.dims[kM])),
        n(std::max<std::int64_t>(1, p.dims[kN])),
        groups(std::max<std::int64_t>(1, ceil_div(p.dims[kK], kGroup))),
        many((p.tensors[kA].dtype == DType::kI8 && of_blocks) ||
             p.tensors[kBias].dtype == DType::kF32),
        blocks(of_blocks),
        device(on) {}

  static bool is_wide(const GemmWgmmaConfig& c) {
    return (c.block_m == 256 && c.block_n == 128) || (c.block_m == 128 && c.block_n == 256);
  }
  std::int64_t tiles(const GemmWgmmaConfig& c) const {
    return ceil_div(m, c.block_m) * ceil_div(n, c.block_n);
  }
  bool is_written(const GemmWgmmaConfig& c) const {
    return !c.swapped && c.block_k == kStage && !c.pingpong && !c.stream;
  }
  bool tile_exists(const GemmWgmmaConfig& c) const {
    const bool widths = c.block_n == 16 || c.block_n == 32 || c.block_n == 64 || c.block_n == 128 ||
                        (c.block_m == 128 && (c.block_n == 96 || c.block_n == 112 ||
                                              c.block_n == 176 || c.block_n == 192));
    if (many && c.block_n > (blocks ? 96 : 112)) return false;  // spilled up to 96 bytes
    if (blocks && c.block_n == 176) return false;               // up to 64
    // Each warpgroup has two units of 64 x 128. Without block scales 128 x 128 is as fast.
    const bool wide = blocks && !many && is_wide(c);
    return (wide || (widths && c.block_m <= 128)) && c.warpgroups == std::min(2, c.block_m / 64);
  }
  bool block_m_distinct(const GemmWgmmaConfig& c) const {
    return c.block_m == 64 || m > c.block_m / 2;
  }
  /// Odd widths serve where they fill waves better.
  bool block_n_distinct(const GemmWgmmaConfig& c) const {
    const bool odd = c.block_n % 64 != 0 && c.block_n > 64;
    return c.block_n == 16 || (odd || c.block_n >= 192 ? c.block_n <= n : c.block_n / 2 < n);
  }
  /// Large tiles read less; small ones serve where large ones leave much of the device idle.
  bool tile_is_large(const GemmWgmmaConfig& c) const {
    if (c.block_n >= 64) return true;
    return ceil_div(m, c.block_m) * ceil_div(n, 2 * c.block_n) < device.units;
  }
  bool cluster_is_useful(const GemmWgmmaConfig& c) const {
    if ((c.share == GemmShare::kNone) != (c.cluster == 1)) return false;
    if (c.share == GemmShare::kNone) return true;
    if (c.share == GemmShare::kK)
      return !is_wide(c) && tiles(c) * c.cluster <= device.units &&
             groups >= std::int64_t{4} * c.cluster;
    const std::int64_t neighbours = ceil_div(c.share == GemmShare::kA ? n : m,
                                             c.share == GemmShare::kA ? c.block_n : c.block_m);
    return c.cluster == 2 && c.block_m >= 128 && c.block_n >= 128 && neighbours >= 2 &&
           tiles(c) > device.units;
  }
  bool exists(const GemmWgmmaConfig& c) const {
    return valid(c) && c.shared_bytes(true, 0) <= device.shared_bytes_per_block;
  }
  /// The deepest ring that fits, or one stage less; no deeper than K.
  bool ring_is_deep(const GemmWgmmaConfig& c) const {
    GemmWgmmaConfig o = c;
    std::int32_t deepest = 2;
    for (const std::int64_t stages : kernels::wgmma_table().values("stages")) {
      o.stages = static_cast<std::int32_t>(stages);
      if ((stages <= groups || stages == 2) && exists(o)) deepest = std::max(deepest, o.stages);
    }
    return c.stages == deepest || (c.stages == deepest - 1 && c.stages >= 3);
  }
  bool weight_leaves_first(const GemmWgmmaConfig& c) const {
    return c.weight_once == (ceil_div(m, c.block_m) == 1);
  }
  bool group_matters(const GemmWgmmaConfig& c) const {
    return c.group_m == 8 || (ceil_div(m, c.block_m) > 8 && tiles(c) > device.units);
  }
};

double limits(double a, double b, double order) {
  return std::pow(std::pow(a, order) + std::pow(b, order), 1 / order);
}

/// Bytes of a copy in the workspace.
constexpr std::int64_t copy_bytes(std::int64_t rows, std::int64_t k) {
  return round_up(rows * round_up(k, 16), 256);
}

struct WgmmaTraits {
  DType type;
  ScaledProgramTraits program;
  bool plain_a, plain_b;  // the copy engine reads them as they lie; else a copy goes before
};

bool is_each(const TensorTraits& t, std::uint8_t ones, std::int64_t size) {
  return size > 1 && !is_broadcast(t.layout) && ones == 0;
}

struct Form : kernels::CudaForm<WgmmaTraits, GemmWgmmaConfig> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  // The order of sums depends on the parts of K, and these on the configuration.
  static constexpr bool kIsDeterministic = false;
  static const ConfigTable<GemmWgmmaConfig>& table() { return kernels::wgmma_table(); }

  static WgmmaTraits traits(const Query& q, const GemmWgmmaConfig&) {
    const Problem& p = q.problem;
    const TensorTraits &a = p.tensors[kA], &b = p.tensors[kB];
    const bool even = p.dims[kK] % 2 == 0;
    WgmmaTraits s{};
    s.type = a.dtype;
    s.program = {p.tensors[kOut].dtype, p.tensors[kBias].dtype,
                 scales_of(q.self.user) == Scales::kBlock,
                 is_each(p.tensors[kAScale], 0, p.dims[kM]),
                 is_each(p.tensors[kBScale], p.ones[kBScale], p.dims[kN])};
    s.plain_a = even && a.align_log2 >= kAlignCap &&
                (a.layout == Layout::kContiguous || a.layout == Layout::kRowStrided);
    s.plain_b = even && b.align_log2 >= kAlignCap && b.layout == Layout::kTransposed;
    return s;
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    const bool blocks = scales_of(q.self.user) == Scales::kBlock;
    if (p.dims[kM] == 0 || p.dims[kN] == 0 || p.dims[kK] == 0)
      return Support::no("a dimension is zero");
    const TensorTraits &a = p.tensors[kA], &out = p.tensors[kOut], &a_scale = p.tensors[kAScale],
                       &b_scale = p.tensors[kBScale], &bias = p.tensors[kBias];
    if (out.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(kOut),
                         std::int64_t{1} << out.align_log2);
    constexpr std::int64_t kMax = (std::int64_t{1} << 30) - 1;
    for (const int letter : {kM, kN, kK})
      if (p.dims[letter] > kMax)
        return Support::no("a dimension is {}: at most {}", p.dims[letter], kMax);
    if (a.dtype == DType::kI8 && !blocks && p.dims[kK] >= std::int64_t{1} << 17)
      return Support::no("K = {}: i32 holds sums of 131071 terms", p.dims[kK]);
    if (out.layout != Layout::kContiguous && out.layout != Layout::kRowStrided)
      return Support::no("rows of {} are not contiguous", tensor(kOut));
    const std::int64_t whole = 16 / size_of(out.dtype);  // the copy engine stores 16 bytes or none
    if (p.dims[kN] % whole != 0)
      return Support::no("N = {} is not a multiple of {}: rows of {} are no multiples of 16 bytes",
                         p.dims[kN], whole, tensor(kOut));
    if (bias.dtype != DType::kAbsent && (bias.layout != Layout::kContiguous || bias.align_log2 < 3))
      return Support::no("{} is not contiguous from a multiple of 8 bytes on", tensor(kBias));
    if (a_scale.align_log2 < 2) return Support::no("{} is not aligned", tensor(kAScale));
    if (b_scale.align_log2 < 2) return Support::no("{} is not aligned", tensor(kBScale));
    if (!blocks) {
      if (a_scale.layout != Layout::kContiguous && !is_broadcast(a_scale.layout))
        return Support::no("{} is not contiguous", tensor(kAScale));
      if (b_scale.layout != Layout::kContiguous || b_scale.align_log2 < 3)
        if (is_each(b_scale, p.ones[kBScale], p.dims[kN]))
          return Support::no("{} is not contiguous from a multiple of 8 bytes on", tensor(kBScale));
    }
    Space space(table());
    constrain(q, space);
    if (space.configs().empty()) return Support::no("no tile fits into shared memory");
    return Support::yes();
  }

  static void constrain(const Query& q, Space& space) {
    const auto rules = std::make_shared<const Rules>(
        q.problem, scales_of(q.self.user) == Scales::kBlock, q.device);
    using Names = std::vector<std::string_view>;
    const auto require = [&](const char* name, const Names& knobs,
                             bool (Rules::*rule)(const GemmWgmmaConfig&) const) {
      space.require(table(), name, knobs,
                    [rules, rule](const GemmWgmmaConfig& c) { return (*rules.*rule)(c); });
    };
    const Names tile = {"block_m", "block_n"};
    require("is_written", {"swapped", "block_k", "pingpong", "stream"}, &Rules::is_written);
    require("tile_exists", {"block_m", "block_n", "warpgroups"}, &Rules::tile_exists);
    require("block_m_distinct", {"block_m"}, &Rules::block_m_distinct);
    require("block_n_distinct", {"block_n"}, &Rules::block_n_distinct);
    require("tile_is_large", tile, &Rules::tile_is_large);
    require("cluster_is_useful", {"block_m", "block_n", "share", "cluster"},
            &Rules::cluster_is_useful);
    const Names whole = {"swapped",  "block_m", "block_n", "block_k", "warpgroups",
                         "pingpong", "share",   "cluster", "stages"};
    require("kernel_exists", whole, &Rules::exists);
    require("ring_is_deep", whole, &Rules::ring_is_deep);
    require("weight_leaves_first", {"block_m", "weight_once"}, &Rules::weight_leaves_first);
    require("group_matters", {"block_m", "block_n", "group_m"}, &Rules::group_matters);
  }

  /// A simpler form of matmul's model (matmul_wgmma_cuda.cpp); not fitted yet.
  static double milliseconds(const Query& q, const GemmWgmmaConfig& c) {
    const Problem& p = q.problem;
    const Grid grid(p, c, q.device);
    const Rates unit = unit_rates(q.device);
    const double m = c.block_m, n = c.block_n;
    // Tensor cores multiply 8-bit codes 2.66 times as fast as cuBLAS does f16, and wait for shared
    // memory: each instruction reads 64 rows of A and all of B there, and the copies write there.
    // H100 or H200, 25 November 2026: 0.41 µs for 128 × 128, 0.33 for 128 × 64.
    const double products = 2 * m * n * 128 / (2.66 * unit.half_flops);
    const double clock = 1.47 * unit.half_flops / 4096;
    const bool wide = Rules::is_wide(c), blocks = scales_of(q.self.user) == Scales::kBlock;
    const double columns = wide ? 128 : n;  // of an instruction
    const double shared = (m * n / (64 * columns) * (64 + columns) + m + n) / clock;
    const double brought =
        (c.share == GemmShare::kA ? m / 2 : m) + (c.share == GemmShare::kB ? n / 2 : n);
    const double copied = brought * 128 / (1.33 * unit.alone_bytes_per_s);
    constexpr double kStep = 0.045e-6;  // barriers, instructions' latency
    // One set of accumulators. With block scales, H200, 29 November 2026: 128 × 192 takes 1.6 times
    // as long as 128 × 128. Two units take twice as long, at a higher clock if nothing else has
    // heated the card, so a search may choose them.
    const double alternate = wide ? 1.28 : c.sums() > 64 ? (blocks ? 1.2 : 1.15) : 1;
    const double step = kStep + 0.93 * alternate * limits(limits(products, shared, 2), copied, 6);
    const auto waves = static_cast<double>(grid.waves);
    const double product = waves * (static_cast<double>(grid.stages) * step + 1.4e-6);
    constexpr double kLatency = 1.6e-6;  // of a stage's copies, under load
    const double at_once = std::min<double>(static_cast<double>(grid.blocks), q.device.units);
    const double useful = std::min<double>(static_cast<double>(p.dims[kM]) + 8, m) + n;
    const double in_flight = at_once * c.stages * useful * 128 / kLatency;
    const double rate =
        std::min({memory_bytes_per_s(q.device), in_flight, 0.8 * at_once * unit.alone_bytes_per_s});
    const double memory = bytes_of(p) / (0.93 * rate);
    constexpr double kBarriers = 0.5e-6, kWords = 0.37;
    const double meeting = c.share == GemmShare::kK
                               ? kBarriers * c.cluster + 4.0 * (c.cluster - 1) * m * n /
                                                             (kWords * unit.alone_bytes_per_s)
                               : 0;
    // Each copy is one launch that reads and writes every code.
    const Traits s = traits(q, c);
    const auto k = static_cast<double>(p.dims[kK]);
    const auto copy = [&](bool plain, std::int64_t rows) {
      constexpr double kPart = 0.4;  // of memory's rate, not measured yet
      return plain ? 0
                   : 2.5e-6 +
                         2 * k * static_cast<double>(rows) / (kPart * memory_bytes_per_s(q.device));
    };
    const double copies = copy(s.plain_a, p.dims[kM]) + copy(s.plain_b, p.dims[kN]);
    // Row scales come through L1, which has what shared memory leaves: with block scales, 5 stages
    // of 128 × 128 are 0.3 to 4 % faster than 6 (H200, 29 November 2026).
    const bool small_l1 = blocks && c.stages == 6 && c.block_m == 128;
    const double order =
        (c.group_m == 16 ? 0 : 1e-9) + 1e-9 * (8 - c.stages) + (small_l1 ? 2e-9 : 0);
    return 1e3 * (limits(product, memory, 8) + meeting + copies + order + 1.5e-6);
  }
  static GemmWgmmaConfig preset(const Query& q) {
    return kernels::least_estimate<Form>(
        q, {false, 64, 16, 64, 1, false, GemmShare::kNone, 1, 2, false, 8});
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(true, 0);
  }

  static std::size_t workspace_bytes(const Query& q, const State& s) {
    const Problem& p = q.problem;
    return static_cast<std::size_t>((s.traits.plain_a ? 0 : copy_bytes(p.dims[kM], p.dims[kK])) +
                                    (s.traits.plain_b ? 0 : copy_bytes(p.dims[kN], p.dims[kK])));
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    using T = ScaledProgramTraits;
    static const auto* members = new TraitsTable<T>{
        "dlblas::gemm::scaled::ScaledProgramTraits",
        {member<&T::out>("out"), member<&T::bias>("bias"), member<&T::blocks>("blocks"),
         member<&T::each_row>("each_row"), member<&T::each_column>("each_column")}};
    T program = s.traits.program;
    if (program.blocks) program.each_row = program.each_column = true;
    GemmTraits g{};
    g.type = s.traits.type;
    g.a_by_depth = g.b_by_depth = true;
    return {{"ops/gemm/scaled/scaled_wgmma.cuh",
             kernels::wgmma_entry(
                 g, s.config,
                 text("dlblas::gemm::scaled::ScaledProgram<", members->literal(program), ">")),
             s.shared_bytes},
            {"ops/gemm/scaled/scaled_plain.cuh",
             text("dlblas::gemm::scaled::scaled_plain<", ScaledPlainParams::kThreads, ">"), 0}};
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// Rows of codes along K as pairs, in place or copied. A reversed or overlapping view has the
/// layout class of a plain one, so no place in the workspace: its copy is allocated. Without data
/// in the result, memory ran out or the copy failed with `code`.
kernels::WgmmaMatrix rows_of_codes(const void* data, std::int64_t k, std::int64_t rows,
                                   std::int64_t row, std::int64_t col, bool plain, void* place,
                                   const Context& context, const cuda::Function& copy, int& code) {
  const bool fits = rows <= 1 || (row >= k && row < std::int64_t{1} << 31);
  if (plain && fits) return {data, k / 2, rows, rows > 1 ? row / 2 : round_up(k, 16) / 2};
  const std::int64_t pitch = round_up(k, 16);
  if (plain) place = context.alloc(context.self, static_cast<std::size_t>(pitch * rows), 64);
  auto* const to = static_cast<std::uint8_t*>(place);
  if (!to) return {};
  constexpr std::int64_t kTile = ScaledPlainParams::kTile;
  const ScaledPlainParams p{static_cast<const std::uint8_t*>(data), row, col, rows, k, to, pitch};
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(ceil_div(rows, kTile) * ceil_div(pitch, kTile));
  how.block.x = ScaledPlainParams::kThreads;
  code = cuda::launch(copy, how, p, context.stream);
  if (code != 0) return {};
  return {to, pitch / 2, rows, pitch / 2};
}

int Form::multiply(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
  constexpr int kNoMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  const State& s = kernel.load<State>();
  const ScaledParams p = scaled_params(args, scales_of(s.user));
  const DType out_type = s.traits.program.out;
  int copied = 0;
  const cuda::Function& copy = *kernel.entries[1];
  const auto rows = [&](const void* data, std::int64_t count, std::int64_t row, std::int64_t col,
                        bool plain, void* place) {
    return rows_of_codes(data, p.k, count, row, col, plain, place, context, copy, copied);
  };
  auto* const place_b = static_cast<char*>(workspace);
  char* const place_a = place_b + (s.traits.plain_b ? 0 : copy_bytes(p.n, p.k));
  const kernels::WgmmaMatrix a = rows(p.a, p.m, p.a_row, p.a_col, s.traits.plain_a, place_a),
                             b = rows(p.b, p.n, p.b_col, p.b_row, s.traits.plain_b, place_b);
  if (copied != 0) return copied;
  // A result whose rows are reversed, overlap or are too far apart is computed in a plain buffer.
  const bool plain = p.m <= 1 || (p.out_row >= p.n && p.out_row < std::int64_t{1} << 31);
  const std::int64_t pitch = plain ? std::max(p.out_row, p.n) : p.n;
  const auto out_bytes = static_cast<std::size_t>(size_of(out_type));
  void* out =
      plain ? p.out
            : context.alloc(context.self, static_cast<std::size_t>(p.m * pitch) * out_bytes, 64);
  if (!a.data || !b.data || !out) return kNoMemory;
  const kernels::WgmmaProduct product = {.type = DType::kF16,
                                         .out_type = out_type,
                                         .a = a,
                                         .b = {b, {}},
                                         .out = {out, p.n, p.m, pitch},
                                         .a_by_depth = true,
                                         .b_by_depth = true,
                                         .parts = 1,
                                         .m = p.m,
                                         .n = p.n,
                                         .k = ceil_div(p.k, 2)};
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, s.config, s.units, call, how)) return code;
  call.operands[0] = {const_cast<void*>(p.a_scale), p.a_scale_row};
  call.operands[1] = {nullptr, p.a_scale_group};
  call.operands[2] = {const_cast<void*>(p.b_scale), p.b_scale_group};
  call.operands[3] = {nullptr, p.b_scale_col};
  call.operands[4] = {const_cast<void*>(p.bias), 0};
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  for (std::int64_t i = 0; code == 0 && !plain && i < p.m; ++i)
    cuda::copy_on_device(static_cast<char*>(p.out) + i * p.out_row * size_of(out_type),
                         static_cast<char*>(out) + i * pitch * size_of(out_type),
                         static_cast<std::size_t>(p.n) * out_bytes, context.stream);
  return code;
}

}  // namespace

void append_wgmma(std::vector<Implementation>& to, Scales scales) {
  to.push_back(kernels::make_cuda<Form>("cuda_wgmma",
                                        source_hash<"ops/gemm/scaled/scaled_wgmma_cuda.cpp">(),
                                        &kScalesOf[static_cast<int>(scales)]));
}

}  // namespace dlblas::gemm::scaled
