// The matmul on Hopper's WGMMA: the estimated time of a configuration, the default one, and the
// launch. In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one
// step. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// matmul_wgmma_space.cpp, device/gemm/wgmma_mainloop.cuh, docs/notes/gemm.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"
#include "ops/gemm/matmul/cuda/matmul_wgmma_rows.hpp"
#include "ops/gemm/matmul/cuda/matmul_wgmma_space.hpp"

namespace dlblas::gemm {
namespace {

// The model below is fitted to 110 times of 14 products on an H100, bf16, 24 November 2026, and,
// for memory and the ends of tiles, to 800 times of 70 products on an H200 two days later
// (docs/notes/gemm.md; tests/cpp/test_matmul_space.cpp has the first set and the quality of the
// fit). On that H100 cuBLAS sustained 690 TFLOP/s, 0.93 of the rate table's value for an H200: rate
// factors are 1.07 times those of that H100, so that estimates compare with cublaslt's.

/// Two limits slow each other down: the larger of a and b, and more where they are nearly equal.
double limits(double a, double b, double order) {
  return std::pow(std::pow(a, order) + std::pow(b, order), 1 / order);
}

/// Rows of a that a tile's copies bring: none past the end where one tile holds all rows
/// (prepare_wgmma). Those are copied as zeros otherwise, which takes as long as reading them.
double rows_copied(const Problem& p, const GemmWgmmaConfig& c) {
  const std::int32_t block = c.swapped ? c.block_n : c.block_m;
  const bool whole = p.tensors[kA].layout == Layout::kTransposed ||
                     c.share == (c.swapped ? GemmShare::kB : GemmShare::kA);
  return static_cast<double>(whole ? block
                                   : std::min<std::int64_t>(block, round_up(p.dims[kM], 8)));
}

/// Seconds per 64 of K of a tile while L2 serves a fraction `crowd` of the device. Three limits:
/// the tensor cores; shared memory at 128 bytes per clock, where each instruction reads 64 rows of
/// A and all columns of B, and the copies of each stage are written; and the copies from L2.
/// 128 × 128: 512 clocks of products, 640 of shared memory, but products draw the power that lowers
/// the clock.
double step_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device,
                    double crowd) {
  constexpr double kProducts = 1.12;  // of what cuBLAS sustains
  constexpr double kClock = 1.47;     // of the clock at which products would take cuBLAS's time
  constexpr double kFromL2 = 1.33;    // of what one multiprocessor draws from memory
  constexpr double kFlopsAClock = 4096, kBytesAClock = 128;
  const Rates unit = unit_rates(device);
  const double m = c.block_m, n = c.block_n;
  const double products = 2 * m * n * 64 / (kProducts * unit.half_flops);
  const double read = m / 64 * (64 + n) * 128, written = (m + n) * 128;
  const double clock = kClock * unit.half_flops / kFlopsAClock;
  const double shared = (read + written) / (kBytesAClock * clock);
  // Under multicast a neighbour copies half of one operand.
  const double rows = rows_copied(p, c);
  const double brought = (c.share == GemmShare::kA ? m / 2
                          : c.swapped              ? m
                                                   : rows) +
                         (c.share == GemmShare::kB ? n / 2
                          : c.swapped              ? rows
                                                   : n);
  const double copied = crowd * brought * 128 / (kFromL2 * unit.alone_bytes_per_s);
  // Measured, not explained: widths that are odd multiples of 16 take longer. Rings of three run
  // dry; paired blocks wait for each other, more so where two warpgroups wait for one stage.
  const double odd = c.block_n % 32 == 16 ? 1.06 : 1, dry = c.stages * c.steps() < 4 ? 1.03 : 1;
  const double together = c.pingpong ? 1 : 1.01;
  const double pair = c.multicast() ? (c.pingpong ? 1.01 : 1.02) : 1;
  return limits(products, limits(shared, copied, 3), 8) * odd * dry * together * pair;
}

/// Tiles run one after the other; the last ones have L2 to themselves. Each epilogue costs its full
/// time, unless the other warpgroup multiplies meanwhile.
double product_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  constexpr double kEpilogue = 1.6e-6;
  const WgmmaGrid grid(p, c);
  const auto waves = static_cast<double>(grid.waves(c, device));
  const double last = static_cast<double>(grid.blocks) / device.units - (waves - 1);
  const double steps = (waves - 1) * step_seconds(p, c, device, 1) +
                       step_seconds(p, c, device, std::clamp(last, 0.7, 1.0));
  return steps * static_cast<double>(grid.chain) / 64 + (c.pingpong ? 1 : waves) * kEpilogue;
}

/// The same with stream-K: all blocks end together. A giver writes a tile of sums, an owner reads
/// one from each giver; beside that counters are zeroed, which is a launch, and the kernel does not
/// begin before the one before it has ended.
double stream_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  constexpr double kEpilogue = 1.6e-6, kLaunches = 4e-6, kMeeting = 1.5e-6, kFromL2 = 1.33;
  const WgmmaGrid grid(p, c);
  const GemmStreamPlan plan = grid.stream(p, c, device);
  const double units = static_cast<double>(grid.blocks) / c.cluster;
  const double tiles = units / plan.workers;  // of each
  const double parts = std::ceil(std::max(1.0, 1 / tiles));
  const double steps = tiles * static_cast<double>(grid.chain) / 64 * step_seconds(p, c, device, 1);
  const double sums =
      4.0 * c.block_m * c.block_n / (kFromL2 * unit_rates(device).alone_bytes_per_s);
  return steps + (c.pingpong ? 1 : std::ceil(tiles)) * kEpilogue + kLaunches + kMeeting +
         parts * sums;
}

/// All operands cross memory once. Few blocks cannot keep it busy. Two multiprocessors share a
/// port: with few rows, 96 blocks, some of them alone at a port, took 16.3 µs for 6144 × 4096, 128
/// took 14.4, but 64 are as fast as 128 (4096 × 4096, 10.3 µs; H200, 29 November 2026). Takes a
/// little longer where several rows of tiles read b, or where tiles reach past its end; adds the
/// ends of tiles.
double memory_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  constexpr double kLatency = 2e-6, kEnds = 6.4e-6;  // of a stage's copies, under load; of a wave
  constexpr double kAlone = 0.7, kPort = 0.8;        // of what one multiprocessor draws
  constexpr double kAgain = 0.25;
  const WgmmaGrid grid(p, c);
  const double at_once = std::min<double>(static_cast<double>(grid.blocks), device.units);
  const double of_a = rows_copied(p, c), of_b = c.swapped ? c.block_m : c.block_n;
  const double in_flight = at_once * c.stages * (of_a + of_b) * c.block_k * 2;
  const auto there = [&](int letter, double block) {
    return std::min(static_cast<double>(p.dims[letter] + 8), block);
  };
  const double useful = (there(kM, of_a) + there(kN, of_b)) / (of_a + of_b);
  const auto readers = static_cast<double>(c.swapped ? grid.tiles_n : grid.tiles_m);
  const double again = 1 + kAgain * std::min(3.0, readers - 1);
  const double ports = device.units / 2.0, of_a_port = std::ceil(at_once / ports);
  const double alone = unit_rates(device).alone_bytes_per_s;
  const double rate = std::min({memory_bytes_per_s(device), in_flight / kLatency,
                                kAlone * at_once * alone, kPort * at_once / of_a_port * alone});
  // Measured, not explained: few rows by 8192 × 8192 take 33.7 to 34.0 µs with every tile, by 28672
  // × 8192 112 to 126, where cuBLAS takes 32.6 to 33.8 and 106 to 118 (five H200s); weights of up
  // to 117 MB take less time than with cuBLAS.
  const double bytes = matmul_bytes(p), large = bytes > 1.25e8 ? 1.06 : 1;
  return bytes * large * again / (useful * rate) +
         kEnds * static_cast<double>(grid.waves(c, device) - 1);
}

double estimate_ms(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  const double product = c.stream ? stream_seconds(p, c, device) : product_seconds(p, c, device);
  const double memory = memory_seconds(p, c, device);
  // Split-K sums are sent to the blocks that store them, which add them up.
  constexpr double kBarriers = 0.43e-6, kWords = 0.3, kMulticast = 1e-6;
  const double sums = 4.0 * (c.cluster - 1) * c.block_m * c.block_n;
  const double meeting =
      c.share == GemmShare::kK
          ? kBarriers * c.cluster + sums / (kWords * unit_rates(device).alone_bytes_per_s)
      : c.multicast() && c.block_m == 64 ? kMulticast
                                         : 0;
  const double spans = wgmma_span(p, c, device) > 0 ? 0.4e-6 * c.sums() / 64 : 0;
  // Ties go to groups of 16 rows, the ring with more of K, and more stages of it.
  const double order =
      (c.group_m == 16 ? 0 : 1e-9) + 1e-9 * (32 - c.stages * c.steps()) + 1e-10 * (8 - c.stages);
  return 1e3 * (limits(product, memory, 8) + meeting + spans + order + 1.5e-6);
}

struct WgmmaTraits : MatmulTraits {
  FewerRows fewer;
};

struct Wgmma : kernels::CudaForm<WgmmaTraits, GemmWgmmaConfig> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_wgmma.cuh";
  static const ConfigTable<GemmWgmmaConfig>& table() { return wgmma_table(); }

  static Traits traits(const Query& q, const GemmWgmmaConfig& c) {
    return {matmul_traits(q.problem, 0, wgmma_span(q.problem, c, q.device)),
            for_fewer_rows(q, c, estimate_ms)};
  }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    if (p.dims[kM] == 0 || p.dims[kN] == 0 || p.dims[kK] == 0)
      return Support::no("a dimension is zero");
    if (const Support operands = supports_tensor_cores(p); !operands) return operands;
    const TensorTraits &out = p.tensors[kOut], &bias = p.tensors[kBias];
    if (out.layout != Layout::kContiguous && out.layout != Layout::kRowStrided)
      return Support::no("rows of {} are not contiguous", tensor(kOut));
    if (out.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(kOut),
                         std::int64_t{1} << out.align_log2);
    const std::int64_t whole = 16 / size_of(out.dtype);  // the copy engine stores 16 bytes or none
    if (p.dims[kN] % whole != 0)
      return Support::no("N = {} is not a multiple of {}: rows of {} are no multiples of 16 bytes",
                         p.dims[kN], whole, tensor(kOut));
    if (bias.dtype != DType::kAbsent && (bias.layout != Layout::kContiguous || bias.align_log2 < 3))
      return Support::no("{} is not contiguous from a multiple of 8 bytes on", tensor(kBias));
    Space space(table());
    constrain(q, space);
    if (space.configs().empty()) return Support::no("no tile fits into shared memory");
    return Support::yes();
  }

  /// Tiles that take all of K add up as cuda_mma does, bit for bit (tests/test_same_bits_wgmma.py).
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }
  static void constrain(const Query& q, Space& space) {
    constrain_wgmma(q.problem, q.device, space);
  }
  static double milliseconds(const Query& q, const GemmWgmmaConfig& c) {
    return estimate_ms(q.problem, c, q.device);
  }
  /// Whole tiles: the model's part for stream-K is not fitted to times, so only a search chooses
  /// it.
  static GemmWgmmaConfig preset(const Query& q) {
    return kernels::least_estimate<Wgmma>(
        q, {false, 64, 8, 64, 1, false, GemmShare::kNone, 1, 2, false, 8},
        [&](const GemmWgmmaConfig& c) {
          return c.stream ? std::numeric_limits<double>::infinity() : milliseconds(q, c);
        });
  }
  static std::size_t workspace_bytes(const Query& q, const State& s) {
    return kernels::wgmma_room_bytes(s.config, q.device.units);
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return bytes_of(s.traits.gemm, s.config);
  }
  static std::int32_t bytes_of(const GemmTraits& s, const GemmWgmmaConfig& c) {
    return c.shared_bytes(c.swapped ? s.a_by_depth : s.b_by_depth, s.span);
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    MatmulEpilogueTraits e = s.traits.epilogue;
    e.out_vector = e.aligned = true;
    const std::string program =
        text("dlblas::gemm::MatmulProgram<", epilogue_table().literal(e), ">");
    const auto source = [&](const GemmWgmmaConfig& c) {
      return KernelSource{kInclude, kernels::wgmma_entry(s.traits.gemm, c, program),
                          bytes_of(s.traits.gemm, c)};
    };
    std::vector<KernelSource> all = {source(s.config)};
    for (int i = 0; i < s.traits.fewer.count; ++i) all.push_back(source(s.traits.fewer.config(i)));
    return all;
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void* room);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

kernels::WgmmaMatrix matrix_of(const Columns& c) { return {c.data, c.rows, c.cols, c.pitch}; }

int Wgmma::multiply(const Args& args, const Context& context, const Kernel& kernel, void* room) {
  const State& s = kernel.load<State>();
  const DType type = s.traits.gemm.type, out_type = s.traits.epilogue.out;
  const MatmulGpuParams p = matmul_gpu_params(args);
  const Operands given = operands_of(p, s.traits.gemm);
  const Operands o = {stand_in(given.b, type, context, 8), stand_in(given.a, type, context, 8),
                      stand_in(given.out, out_type, context, 8)};
  if (!o.a.data || !o.b.data || !o.out.data) return kNoMemory;
  if (o.a.data != given.a.data) copy_columns(given.a, o.a, type, context.stream);
  if (o.b.data != given.b.data) copy_columns(given.b, o.b, type, context.stream);

  const kernels::WgmmaProduct product = {.type = type,
                                         .out_type = out_type,
                                         .a = matrix_of(o.a),
                                         .b = {matrix_of(o.b), {}},
                                         .out = matrix_of(o.out),
                                         .a_by_depth = s.traits.gemm.a_by_depth,
                                         .b_by_depth = s.traits.gemm.b_by_depth,
                                         .parts = 1,
                                         .m = p.gemm.m,
                                         .n = p.gemm.n,
                                         .k = p.gemm.k};
  const int fewer = s.traits.fewer.index_for(p.gemm.m);
  const GemmWgmmaConfig c = fewer < 0 ? s.config : s.traits.fewer.config(fewer);
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, c, s.units, call, how, room, context.stream))
    return code;
  call.operands[0] = {const_cast<void*>(p.epilogue.bias), 0};
  how.shared_bytes = static_cast<unsigned>(bytes_of(s.traits.gemm, c));
  how.dependent = s.dependent && !c.stream;  // counters are zeroed before it: not a kernel
  const int code = cuda::launch(*kernel.entries[fewer + 1], how, call, context.stream);
  if (code == 0 && o.out.data != given.out.data)
    copy_columns(o.out, given.out, out_type, context.stream);
  return code;
}

}  // namespace

double wgmma_product_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  return product_seconds(p, c, device);
}

void append_wgmma_cuda(std::vector<Implementation>& to) {
  to.push_back(kernels::make_cuda<Wgmma>(
      "cuda_wgmma", source_hash<"ops/gemm/matmul/cuda/matmul_wgmma_cuda.cpp">()));
}

}  // namespace dlblas::gemm
