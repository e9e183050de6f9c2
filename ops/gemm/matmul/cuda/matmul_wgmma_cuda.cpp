// The matmul on Hopper's WGMMA: what a configuration is expected to take, which one is the default,
// and its launch. In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one
// step. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// matmul_wgmma_space.cpp, device/gemm/wgmma_mainloop.cuh, docs/notes/gemm.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/rates.hpp"
#include "generated/source_hashes.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"
#include "ops/gemm/matmul/cuda/matmul_wgmma_space.hpp"

namespace dlblas::gemm {
namespace {

// What ranks configurations is fitted to a prototype's times on H200s, bf16, 22 November 2026
// (docs/notes/gemm.md): of seven large products its first choice was 0 to 2.8 % off the best.

bool is_multicast(const GemmWgmmaConfig& c) {
  return c.share == GemmShare::kA || c.share == GemmShare::kB;
}

/// Tiles one after the other at the rate that the device sustains (1.05 of what cuBLAS sustains,
/// whose rate the table has), never faster than their copies come. Narrow tiles load the rest of
/// the machine more than 128 × 128 do; a ring of less than 160 KiB runs dry at times; a tile's
/// epilogue takes as long as it is, unless the other warpgroup multiplies meanwhile.
double product_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  constexpr double kOfCublas = 1.05, kEpilogue = 1.4e-6;
  constexpr double kFromL2 = 1.25;  // of what one multiprocessor draws from memory
  const WgmmaGrid grid(p, c);
  const Rates unit = unit_rates(device);
  const double m = c.block_m, n = c.block_n, depth = static_cast<double>(grid.chain);
  const double wide = 1 + 8 * std::max(0.0, (m + n) / (m * n) - 1.0 / 64);
  const double ring = c.stages * (m + n) * c.block_k * 2 / 1024;
  const double dry = 1 + 0.06 * std::max(0.0, (160 - ring) / 32);
  // Under multicast a neighbour brings half of one operand. Ping-pong does without.
  const double brought =
      (c.share == GemmShare::kA ? m / 2 : m) + (c.share == GemmShare::kB ? n / 2 : n);
  const double copies = brought * depth * 2 / (kFromL2 * unit.alone_bytes_per_s);
  const double together = c.pingpong ? (is_multicast(c) ? 1.004 : 1) : (is_multicast(c) ? 1 : 1.03);
  const double tile = 2 * m * n * depth / (kOfCublas * unit.half_flops) * wide * dry * together;
  const auto waves = static_cast<double>(grid.waves(c, device));
  const double ends = c.pingpong ? (waves < 2 ? kEpilogue : 0) : waves * kEpilogue;
  return waves * std::max(tile, copies) + ends;
}

/// All operands once through memory, which few blocks cannot keep busy, nor copies of rows that are
/// not there; and the ends of tiles.
double memory_seconds(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  constexpr double kLatency = 1.6e-6, kEnds = 0.7e-6;  // of a stage's copies, under load; of a tile
  const WgmmaGrid grid(p, c);
  const double at_once = std::min<double>(static_cast<double>(grid.blocks), device.units);
  const double busy = std::min(1.0, 0.35 + 0.65 * at_once / (0.85 * device.units));
  const double in_flight = at_once * c.stages * (c.block_m + c.block_n) * c.block_k * 2;
  const auto there = [](std::int64_t size, int block) {
    return static_cast<double>(std::min<std::int64_t>(size + 8, block));
  };
  const double useful = (there(p.dims[c.swapped ? kN : kM], c.block_m) +
                         there(p.dims[c.swapped ? kM : kN], c.block_n)) /
                        (c.block_m + c.block_n);
  return matmul_bytes(p) /
             (useful * std::min(busy * memory_bytes_per_s(device), in_flight / kLatency)) +
         kEnds * static_cast<double>(grid.waves(c, device));
}

double estimate_ms(const Problem& p, const GemmWgmmaConfig& c, const DeviceInfo& device) {
  const double product = product_seconds(p, c, device), memory = memory_seconds(p, c, device);
  // Sums of parts of K go to one block, and meet.
  const double sums = 4.0 * (c.cluster - 1) * c.block_m * c.block_n;
  const double meeting = c.share == GemmShare::kK
                             ? 0.3e-6 * c.cluster + sums / unit_rates(device).alone_bytes_per_s
                             : 0;
  const double spans = wgmma_span(p, c, device) > 0 ? 0.4e-6 * c.sums() / 64 : 0;
  // Where nothing else decides: groups of 16 rows, the deeper ring.
  const double order = (c.group_m == 16 ? 0 : 1e-9) + 1e-9 * (8 - c.stages);
  return 1e3 * (std::max(product + 0.7e-6, memory) + meeting + spans + order + 2e-6);
}

struct Wgmma : MatmulForm<Wgmma, GemmWgmmaConfig> {
  static constexpr std::int32_t kMinArch = 90;
  static constexpr bool kDependent = true;
  // Bits repeat from run to run, but the order of sums depends on the configuration, and that on M.
  static constexpr bool kIsDeterministic = false;
  static constexpr const char* kInclude = "ops/gemm/matmul/cuda/matmul_wgmma.cuh";
  static const ConfigTable<GemmWgmmaConfig>& table() { return wgmma_table(); }

  static MatmulTraits traits(const Query& q, const GemmWgmmaConfig& c) {
    return matmul_traits(q.problem, 0, wgmma_span(q.problem, c, q.device));
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

  static void constrain(const Query& q, Space& space) {
    constrain_wgmma(q.problem, q.device, space);
  }
  static double milliseconds(const Query& q, const GemmWgmmaConfig& c) {
    return estimate_ms(q.problem, c, q.device);
  }
  /// The least estimate of the space; the first where they agree.
  static GemmWgmmaConfig preset(const Query& q) {
    Space space(table());
    constrain(q, space);
    GemmWgmmaConfig best{};
    double best_ms = std::numeric_limits<double>::infinity();
    for (const dlblas::Config& config : space.configs()) {
      const GemmWgmmaConfig c = table().from_config(config);
      const double ms = milliseconds(q, c);
      if (ms < best_ms) best = c, best_ms = ms;
    }
    return best;
  }

  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return s.config.shared_bytes(wgmma_b_by_depth(q.problem, s.config), s.traits.gemm.span);
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    MatmulEpilogueTraits e = s.traits.epilogue;
    e.out_vector = e.aligned = true;
    const std::string program =
        text("dlblas::gemm::MatmulProgram<", epilogue_table().literal(e), ">");
    return {{kInclude, kernels::wgmma_entry(s.traits.gemm, s.config, program), s.shared_bytes}};
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

kernels::WgmmaMatrix matrix_of(const Columns& c) { return {c.data, c.rows, c.cols, c.pitch}; }

int Wgmma::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
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
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, s.config, s.units, call, how)) return code;
  call.operands[0] = {const_cast<void*>(p.epilogue.bias), 0};
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  if (code == 0 && o.out.data != given.out.data)
    copy_columns(o.out, given.out, out_type, context.stream);
  return code;
}

}  // namespace

void append_wgmma_cuda(std::vector<Implementation>& to) {
  Implementation wgmma = kernels::make_cuda<Wgmma>(
      "cuda_wgmma", source_hash("ops/gemm/matmul/cuda/matmul_wgmma_cuda.cpp"));
  wgmma.max_arch = wgmma.min_arch;  // the instruction is sm_90a's alone
  to.push_back(wgmma);
}

}  // namespace dlblas::gemm
