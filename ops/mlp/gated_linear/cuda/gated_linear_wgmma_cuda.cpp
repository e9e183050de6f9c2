// gated_linear on Hopper's WGMMA. Half of a tile's block_n columns are the gate's, half the other
// weight's. In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/wgmma_mainloop.cuh, gated_linear_wgmma.cuh, kernels/wgmma_space.hpp (the model).
#include <vector>

#include "core/source_hash.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "kernels/wgmma_space.hpp"
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

using C = GemmWgmmaConfig;

/// 192 sums and a gate's function spilled 16 bytes where two warpgroups share a 256 × 192 tile, and
/// none with ping-pong.
kernels::WgmmaShape shape_of(const Query& q) {
  const Problem& p = q.problem;
  return {{p.dims[kT], 2 * p.dims[kF], p.dims[kK]},
          bytes_of(p),
          {.parts = 2, .most_apart = 192, .most_together = 176},
          p,
          q.device};
}

struct Wgmma : kernels::CudaForm<GatedGpuTraits, C> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  static const ConfigTable<C>& table() { return kernels::wgmma_table(); }

  static GatedGpuTraits traits(const Query& q, const C& c) {
    return gated_traits(q.problem, 0, shape_of(q).span(c));
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

  /// Tiles that take all of K add up as cuda_mma does, bit for bit (tests/test_same_bits_wgmma.py).
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(q.problem)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }
  static void constrain(const Query& q, Space& space) { shape_of(q).constrain(space); }
  /// Few rows: cuda_mma took 60 us where this form took 63.6 with whole boxes (26 November 2026);
  /// with boxes that end at the last row it is not measured yet.
  static double milliseconds(const Query& q, const C& c) {
    constexpr std::int64_t kFew = 16;
    constexpr double kUnmeasured = 1.08;
    return shape_of(q).milliseconds(c) * (q.problem.dims[kT] <= kFew ? kUnmeasured : 1);
  }
  static C preset(const Query& q) {
    const kernels::WgmmaShape shape = shape_of(q);
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

/// A reversed or overlapping view, which a tensor map cannot describe, has the layout class of a
/// plain one.
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
