// gated_linear on Hopper's WGMMA: which configurations are worth a search, what one is expected to
// take, and its launch. A tile's block_n columns are half the gate's and half the other's. In: a
// Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/wgmma_mainloop.cuh, gated_linear_wgmma.cuh, docs/notes/gemm.md (the model).
#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

using C = GemmWgmmaConfig;

/// How a configuration divides a product of [m, k] and [k, n], n columns of both weights.
struct Shape {
  std::int64_t m, n, k;
  DeviceInfo device;
  Problem problem;

  Shape(const Problem& p, const DeviceInfo& on)
      : m(std::max<std::int64_t>(1, p.dims[kT])),
        n(std::max<std::int64_t>(1, 2 * p.dims[kF])),
        k(std::max<std::int64_t>(1, p.dims[kK])),
        device(on),
        problem(p) {}

  std::int64_t tiles_m(const C& c) const { return ceil_div(m, c.block_m); }
  std::int64_t tiles_n(const C& c) const { return ceil_div(n, c.block_n); }
  std::int64_t tiles(const C& c) const { return tiles_m(c) * tiles_n(c); }
  /// That there is work for, of whole clusters.
  std::int64_t blocks(const C& c) const {
    const std::int64_t rows =
        c.share == GemmShare::kB ? round_up(tiles_m(c), c.cluster) : tiles_m(c);
    const std::int64_t columns =
        c.share == GemmShare::kA ? round_up(tiles_n(c), c.cluster) : tiles_n(c);
    return rows * columns * (c.share == GemmShare::kK ? c.cluster : 1);
  }
  /// Terms of K of one block.
  std::int64_t chain(const C& c) const {
    return c.share == GemmShare::kK ? round_up(ceil_div(k, c.cluster), c.block_k) : k;
  }
  /// Tiles one after the other on the fullest multiprocessor.
  std::int64_t waves(const C& c) const {
    const std::int64_t units = c.cluster == 4 ? device.units * 10 / 11 : device.units;
    return ceil_div(blocks(c), std::max<std::int64_t>(1, units / c.cluster * c.cluster));
  }
  std::int32_t span(const C& c) const { return tensor_core_span(problem, chain(c)); }

  // Constraints: each reads no knob that it does not name; as matmul's, of twice the columns.

  bool is_offered(const C& c) const { return !c.swapped; }
  bool block_m_wastes_little(const C& c) const {
    return c.block_m == 64 || 4 * round_up(m, c.block_m) <= 5 * round_up(m, 64);
  }
  /// A part's columns are a multiple of eight.
  bool block_n_wastes_little(const C& c) const {
    if (c.block_n % 16 != 0) return false;
    return c.block_n == 16 || 8 * round_up(n, c.block_n) <= 9 * round_up(n, 16);
  }
  bool tile_is_large(const C& c) const {
    const double share = static_cast<double>(m) * static_cast<double>(n) / device.units;
    const double most = span(c) > 0 ? 128 * 64 : 128 * 96;
    return c.block_n >= n || c.block_m * c.block_n >= std::min(share / 2, most);
  }
  bool depth_suits_tile(const C& c) const {
    const int sides = c.block_m + c.block_n;
    if (c.block_k > 64 && c.block_k > round_up(k, 64)) return false;
    if (c.block_k == 256) return sides <= 96;
    if (c.block_k == 128) return sides <= 192;
    return sides > 96 || k <= 64;
  }
  bool warpgroups_suit_tile(const C& c) const {
    return c.warpgroups == (c.block_m == 64 ? 1 : 2) && (!c.pingpong || c.block_m == 128);
  }
  bool pingpong_has_a_next(const C& c) const { return !c.pingpong || tiles(c) > device.units; }
  bool cluster_is_useful(const C& c) const {
    if ((c.share == GemmShare::kNone) != (c.cluster == 1)) return false;
    if (c.share == GemmShare::kNone) return true;
    if (c.share == GemmShare::kK)
      return !c.pingpong && tiles(c) * c.cluster <= device.units &&
             k >= std::int64_t{4} * c.block_k * c.cluster;
    // A part's share of the columns is a multiple of eight, too.
    if (c.share == GemmShare::kB && c.block_n % (16 * c.cluster) != 0) return false;
    const std::int64_t neighbours = c.share == GemmShare::kA ? tiles_n(c) : tiles_m(c);
    return c.cluster == 2 && c.block_m >= 128 && neighbours >= 2 && tiles(c) > device.units;
  }
  bool device_is_filled(const C& c) const {
    if (c.block_m == 64 && c.block_n <= 64) return true;
    return 5 * tiles(c) * (c.share == GemmShare::kK ? c.cluster : 1) >= 3 * device.units;
  }
  /// 192 sums and a gate's function spilled 16 bytes in 256 × 192 together, in no ping-pong.
  bool exists(const C& c) const {
    return valid(c) && !(c.pingpong && span(c) > 0) && (c.pingpong || c.sums() <= 176) &&
           c.shared_bytes(true, span(c)) <= device.shared_bytes_per_block;
  }
  bool ring_is_deep(const C& c) const {
    const std::int64_t work = ceil_div(chain(c), c.block_k) * waves(c);
    C o = c;
    std::int32_t deepest = 2;
    for (const std::int64_t stages : kernels::wgmma_table().values("stages")) {
      o.stages = static_cast<std::int32_t>(stages);
      if (stages <= work && exists(o)) deepest = std::max(deepest, o.stages);
    }
    return c.stages == deepest || (c.stages == deepest - 1 && c.stages >= 3);
  }
  bool weight_leaves_first(const C& c) const { return c.weight_once == (tiles_m(c) == 1); }
  bool group_matters(const C& c) const {
    const bool matters = tiles_m(c) > 8 && tiles(c) > device.units;
    return c.group_m == 8 || (matters && c.group_m == 16);
  }

  // The model, as matmul's: what a tile takes, what memory takes, and what meets.

  static double limits(double a, double b, double order) {
    return std::pow(std::pow(a, order) + std::pow(b, order), 1 / order);
  }
  /// Seconds for 64 of K of a tile while L2 serves `crowd` of the device.
  double step_seconds(const C& c, double crowd) const {
    constexpr double kProducts = 1.12, kClock = 1.47, kFromL2 = 1.33;
    constexpr double kFlopsAClock = 4096, kBytesAClock = 128;
    const Rates unit = unit_rates(device);
    const double rows = c.block_m, columns = c.block_n;
    const double products = 2 * rows * columns * 64 / (kProducts * unit.half_flops);
    const double read = rows / 64 * (64 + columns) * 128, written = (rows + columns) * 128;
    const double clock = kClock * unit.half_flops / kFlopsAClock;
    const double shared = (read + written) / (kBytesAClock * clock);
    const double brought = (c.share == GemmShare::kA ? rows / 2 : rows) +
                           (c.share == GemmShare::kB ? columns / 2 : columns);
    const double copied = crowd * brought * 128 / (kFromL2 * unit.alone_bytes_per_s);
    const double odd = c.block_n % 32 == 16 ? 1.06 : 1, dry = c.stages * c.steps() < 4 ? 1.03 : 1;
    const double together = c.pingpong ? 1 : 1.01;
    const double pair = c.multicast() ? (c.pingpong ? 1.01 : 1.02) : 1;
    return limits(products, limits(shared, copied, 3), 8) * odd * dry * together * pair;
  }
  double product_seconds(const C& c) const {
    constexpr double kEpilogue = 1.4e-6;
    const auto in_turn = static_cast<double>(waves(c));
    const double last = static_cast<double>(blocks(c)) / device.units - (in_turn - 1);
    const double steps =
        (in_turn - 1) * step_seconds(c, 1) + step_seconds(c, std::clamp(last, 0.7, 1.0));
    return steps * static_cast<double>(chain(c)) / 64 + (c.pingpong ? 1 : in_turn) * kEpilogue;
  }
  double memory_seconds(const C& c) const {
    constexpr double kLatency = 1.6e-6, kEnds = 1e-6, kAlone = 0.8, kIdle = 0.05, kAgain = 0.06;
    const double at_once = std::min<double>(static_cast<double>(blocks(c)), device.units);
    const double in_flight = at_once * c.stages * (c.block_m + c.block_n) * c.block_k * 2;
    const double there = static_cast<double>(std::min<std::int64_t>(m + 8, c.block_m) +
                                             std::min<std::int64_t>(n + 8, c.block_n));
    const double useful = there / (c.block_m + c.block_n);
    const double busy = 1 - kIdle * (1 - at_once / device.units);
    const double again = 1 + kAgain * std::min(3.0, static_cast<double>(tiles_m(c)) - 1);
    const double rate = std::min({memory_bytes_per_s(device), in_flight / kLatency,
                                  kAlone * at_once * unit_rates(device).alone_bytes_per_s});
    return bytes_of(problem) * again / (useful * busy * rate) +
           kEnds * static_cast<double>(waves(c) - 1);
  }
  double milliseconds(const C& c) const {
    constexpr double kBarriers = 0.5e-6, kWords = 0.37;
    const double sums = 4.0 * (c.cluster - 1) * c.block_m * c.block_n;
    const double meeting =
        c.share == GemmShare::kK
            ? kBarriers * c.cluster + sums / (kWords * unit_rates(device).alone_bytes_per_s)
            : 0;
    const double spans = span(c) > 0 ? 0.4e-6 * c.sums() / 64 : 0;
    const double order = (c.group_m == 16 ? 0 : 1e-9) + 1e-9 * (8 - c.stages);
    return 1e3 *
           (limits(product_seconds(c), memory_seconds(c), 8) + meeting + spans + order + 1.5e-6);
  }
};

struct Wgmma : kernels::CudaForm<GatedGpuTraits, C> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  // Bits repeat from run to run, but the order of sums depends on the configuration, and that on T.
  static constexpr bool kIsDeterministic = false;
  static const ConfigTable<C>& table() { return kernels::wgmma_table(); }

  static GatedGpuTraits traits(const Query& q, const C& c) {
    return gated_traits(q.problem, 0, Shape(q.problem, q.device).span(c));
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.dims[kT] == 0 || p.dims[kF] == 0 || p.dims[kK] == 0)
      return Support::no("a dimension is zero");
    if (const Support operands = supports_tensor_cores(p); !operands) return operands;
    const TensorTraits& y = p.tensors[kY];
    if (y.layout != Layout::kContiguous && y.layout != Layout::kRowStrided)
      return Support::no("rows of {} are not contiguous", tensor(kY));
    if (y.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(kY),
                         std::int64_t{1} << y.align_log2);
    if (p.dims[kF] % 8 != 0)  // the copy engine stores 16 bytes or none
      return Support::no("F = {} is not a multiple of 8: rows of {} are no multiples of 16 bytes",
                         p.dims[kF], tensor(kY));
    Space space(table());
    constrain(q, space);
    if (space.configs().empty()) return Support::no("no tile fits into shared memory");
    return Support::yes();
  }

  static void constrain(const Query& q, Space& space) {
    const auto shape = std::make_shared<const Shape>(q.problem, q.device);
    using Names = std::vector<std::string_view>;
    const auto require = [&](const char* name, const Names& knobs,
                             bool (Shape::*rule)(const C&) const) {
      space.require(table(), name, knobs, [shape, rule](const C& c) { return (*shape.*rule)(c); });
    };
    const Names cluster = {"block_m", "block_n", "block_k", "pingpong", "share", "cluster"};
    const Names whole = {"block_m",  "block_n", "block_k", "warpgroups",
                         "pingpong", "share",   "cluster", "stages"};
    require("not_swapped", {"swapped"}, &Shape::is_offered);
    require("block_m_wastes_little", {"block_m"}, &Shape::block_m_wastes_little);
    require("block_n_wastes_little", {"block_n"}, &Shape::block_n_wastes_little);
    require("depth_suits_tile", {"block_m", "block_n", "block_k"}, &Shape::depth_suits_tile);
    require("warpgroups_suit_tile", {"block_m", "warpgroups", "pingpong"},
            &Shape::warpgroups_suit_tile);
    require("pingpong_has_a_next", {"block_m", "block_n", "pingpong"}, &Shape::pingpong_has_a_next);
    require("cluster_is_useful", cluster, &Shape::cluster_is_useful);
    require("tile_is_large", {"block_m", "block_n", "block_k", "share", "cluster"},
            &Shape::tile_is_large);
    require("device_is_filled", {"block_m", "block_n", "share", "cluster"},
            &Shape::device_is_filled);
    require("kernel_exists", whole, &Shape::exists);
    require("ring_is_deep", whole, &Shape::ring_is_deep);
    require("weight_leaves_first", {"block_m", "weight_once"}, &Shape::weight_leaves_first);
    require("group_matters", {"block_m", "block_n", "group_m"}, &Shape::group_matters);
  }
  static double milliseconds(const Query& q, const C& c) {
    return Shape(q.problem, q.device).milliseconds(c);
  }
  static C preset(const Query& q) {
    const Shape shape(q.problem, q.device);
    return kernels::least_estimate<Wgmma>(
        q, {false, 64, 16, 64, 1, false, GemmShare::kNone, 1, 2, false, 8},
        [&](const C& c) { return shape.milliseconds(c); });
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(true, s.traits.gemm.span);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    GatedLinearTraits gated = s.traits.gated;
    gated.out_vector = gated.aligned = true;
    constexpr int kFew = 160;  // sums of a thread beside which gates that are hoisted spill
    const char* program = s.config.sums() >= kFew ? "GatedProgramInTurn" : "GatedProgram";
    return {{"ops/mlp/gated_linear/cuda/gated_linear_wgmma.cuh",
             kernels::wgmma_entry(s.traits.gemm, s.config, gated_text(program, gated)),
             s.shared_bytes}};
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// A view that a tensor map cannot hold, reversed or overlapping, has the layout class of a plain
/// one.
bool fits(const TensorView& t) {
  return t.shape[0] <= 1 || (t.strides[0] >= t.shape[1] && t.strides[0] < std::int64_t{1} << 31);
}

int Wgmma::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  TensorView operands[4];
  for (int i = kX; i <= kY; ++i) {
    TensorView& t = operands[i] = flat(args.tensors[i]);
    if (!fits(t)) t = packed_copy(t, context);
    if (!t.data) return kNoMemory;
  }
  const auto matrix_of = [](const TensorView& t) {
    return kernels::WgmmaMatrix{t.data, t.shape[1], t.shape[0],
                                t.shape[0] <= 1 ? round_up(t.shape[1], 8) : t.strides[0]};
  };
  const kernels::WgmmaProduct product = {
      .type = s.traits.gemm.type,
      .out_type = s.traits.gated.out,
      .a = matrix_of(operands[kX]),
      .b = {matrix_of(operands[kGate]), matrix_of(operands[kUp])},
      .out = matrix_of(operands[kY]),
      .a_by_depth = true,
      .b_by_depth = true,
      .parts = 2,
      .m = args.letters[kT],
      .n = args.letters[kF],
      .k = args.letters[kK]};
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, s.config, s.units, call, how)) return code;
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  const TensorView y = flat(args.tensors[kY]);
  if (code == 0 && operands[kY].data != y.data) copy_rows(operands[kY], y, context.stream);
  return code;
}

}  // namespace

void append_wgmma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Wgmma>(
      "cuda_wgmma", source_hash<"ops/mlp/gated_linear/cuda/gated_linear_wgmma_cuda.cpp">()));
}

}  // namespace dlblas::mlp
