// Batched products on Hopper's WGMMA: the supported problems, the estimated time of a tile, and the
// launch of at most one persistent block per multiprocessor for the tiles of all matrices.
// In: a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: batched_wgmma.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/batched/batched_cuda.hpp"
#include "ops/gemm/batched/batched_wgmma_config.hpp"
#include "ops/gemm/matmul/cuda/matmul_wgmma_space.hpp"

namespace dlblas::gemm {
namespace {

/// Matrices of one size, `apart` elements from one to the next.
struct Stack {
  Columns one;
  std::int64_t apart, count;

  bool fits() const { return one.fits() && (count <= 1 || apart > 0); }
  Columns at(std::int64_t i, DType type) const {
    Columns c = one;
    c.data = static_cast<const char*>(one.data) + i * apart * size_of(type);
    return c;
  }
  kernels::WgmmaMatrix map() const {
    return {one.data, one.rows, one.cols, one.pitch, count, apart};
  }
};

/// A plain stack stands in for views that the copy engine cannot read: their layout class is that
/// of plain ones. Null data: out of memory.
Stack stack_in(const Stack& s, DType type, const Context& context) {
  if (s.fits()) return s;
  const Columns all =
      packed({s.one.data, s.one.rows, s.one.cols * s.count, s.one.pitch}, type, context, 8);
  return {{all.data, s.one.rows, s.one.cols, all.pitch}, s.one.cols * all.pitch, s.count};
}
void copy_stack(const Stack& from, const Stack& to, DType type, void* stream) {
  for (std::int64_t i = 0; i < from.count; ++i)
    copy_columns(from.at(i, type), to.at(i, type), type, stream);
}

/// Rows of D that a matrix takes: whole tiles.
std::int64_t rows_each(std::int64_t m, const GemmWgmmaConfig& c) { return round_up(m, c.block_m); }

struct Wgmma : BatchedForm<Wgmma> {
  static constexpr bool kHopper = true;
  static constexpr const char* kInclude = "ops/gemm/batched/batched_wgmma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::batched_wgmma";
  static constexpr const auto& kTiles = kBatchedWgmmaTiles;
  static constexpr int kCount = kBatchedWgmmaCount;

  static std::int32_t span(const Query&) { return 0; }
  static MatmulTraits traits(const Query& q, const BatchedConfig& config) {
    MatmulTraits s = BatchedForm::traits(q, config);
    s.gemm.a_whole = s.gemm.b_whole = s.gemm.aligned = true;
    s.epilogue.out_vector = s.epilogue.aligned = true;
    return s;
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return kTiles[s.config.tile].shared_bytes(s.traits.gemm.b_by_depth, 0);
  }
  static bool fits(const Query& q, int tile) {
    const bool by_depth = matrix(q).tensors[kB].layout == Layout::kTransposed;
    return kTiles[tile].shared_bytes(by_depth, 0) <= q.device.shared_bytes_per_block;
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1, kBlock = 256;
    const Problem p = matrix(q);
    const std::int64_t batch = q.problem.dims[kBatch], m = p.dims[kM], n = p.dims[kN],
                       k = p.dims[kK];
    if (batch == 0 || m == 0 || n == 0 || k == 0) return Support::no("a dimension is zero");
    for (const int i : {int{kA}, int{kB}})
      if (is_broadcast(q.problem.tensors[i].layout))
        return Support::no("{} repeats a matrix or a row", tensor(i));
    if (const Support operands = supports_tensor_cores(p); !operands) return operands;
    const TensorTraits &out = p.tensors[kOut], &bias = p.tensors[kBias];
    if (out.layout != Layout::kContiguous && out.layout != Layout::kRowStrided)
      return Support::no("rows of {} are not contiguous", tensor(kOut));
    const std::int64_t whole = 16 / size_of(out.dtype);  // the copy engine stores 16 bytes or none
    if (out.align_log2 < kAlignCap || n % whole != 0)
      return Support::no("rows of {} are no multiples of 16 bytes", tensor(kOut));
    if (bias.dtype != DType::kAbsent && (bias.layout != Layout::kContiguous || bias.align_log2 < 3))
      return Support::no("{} is not contiguous from a multiple of 8 bytes on", tensor(kBias));
    if (tensor_core_span(p, k, false) > 0)
      return Support::no("K is {}: sums are one chain here", k);
    // Tiles of 64 × 64, and rows in whole tiles of at most kBlock.
    if (batch > kMax / (m + kBlock) || batch * ceil_div(m, 64) > kMax / ceil_div(n, 64))
      return Support::no("rows of all matrices, or their tiles, are more than 31 bits count");
    return Support::yes();
  }

  /// Adds up as cuda_mma does, bit for bit (tests/test_same_bits_wgmma.py).
  static Support same_bits(const Query& q) {
    if (tensor_cores_take_any_batch(matrix(q))) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }

  /// The tiles of all matrices one after the other, as in matmul, and all operands once from
  /// memory: within 10 % of the times of ten products on an H200 (29 November 2026,
  /// docs/notes/gemm.md).
  static double milliseconds(const Query& q, const BatchedConfig& config) {
    const GemmWgmmaConfig& c = kTiles[config.tile];
    Problem p = matrix(q);
    const std::int64_t batch = q.problem.dims[kBatch];
    // Of memory's rate; less where most bytes are the result's.
    const double bytes = matmul_bytes(p), results = static_cast<double>(p.dims[kM]) *
                                                    static_cast<double>(p.dims[kN]) *
                                                    size_of(p.tensors[kOut].dtype);
    const double reached = results > 0.7 * bytes ? 0.78 : 0.92;
    const double memory =
        static_cast<double>(batch) * bytes / (reached * memory_bytes_per_s(q.device));
    p.dims[kM] = batch * rows_each(p.dims[kM], c);
    constexpr double kTurn = 0.3e-6;  // between two tiles
    const auto waves = static_cast<double>(WgmmaGrid(p, c).waves(c, q.device));
    const double product = wgmma_product_seconds(p, c, q.device) + kTurn * waves;
    return 1e3 * (std::max(product, memory) + 0.05 * std::min(product, memory) + 1.6e-6);
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

int Wgmma::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const BatchedOp*>(s.user);
  const GemmWgmmaConfig& c = kTiles[s.config.tile];
  const DType type = s.traits.gemm.type, out_type = s.traits.epilogue.out;
  const std::int64_t batch = args.letters[kBatch];
  const MatmulGpuParams p = matmul_gpu_params(matrix_args(op, args, 0));
  const Operands one = operands_of(p, s.traits.gemm);
  const auto stack = [&](const Columns& m, int tensor) {
    return Stack{m, batch_stride(args.tensors[tensor]), batch};
  };
  const Stack a = stack(one.a, kA), b = stack(one.b, kB), out = stack(one.out, kOut);
  const Stack in_a = stack_in(a, type, context), in_b = stack_in(b, type, context),
              in_out = stack_in(out, out_type, context);
  if (!in_a.one.data || !in_b.one.data || !in_out.one.data) return kNoMemory;
  if (!a.fits()) copy_stack(a, in_a, type, context.stream);
  if (!b.fits()) copy_stack(b, in_b, type, context.stream);

  const std::int64_t each = rows_each(p.gemm.m, c);
  const kernels::WgmmaProduct product = {.type = type,
                                         .out_type = out_type,
                                         .a = in_a.map(),
                                         .b = {in_b.map(), {}},
                                         .out = in_out.map(),
                                         .a_by_depth = s.traits.gemm.a_by_depth,
                                         .b_by_depth = s.traits.gemm.b_by_depth,
                                         .parts = 1,
                                         .m = batch * each,
                                         .n = p.gemm.n,
                                         .k = p.gemm.k};
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, c, s.units, call, how)) return code;
  call.rows_each = static_cast<std::int32_t>(each);
  // Rows of tiles that are walked together share b: those of one matrix, or a band of it.
  const auto tiles = static_cast<std::int32_t>(each / c.block_m);
  if (tiles <= 2 * c.group_m) call.group = tiles;
  call.operands[0] = {const_cast<void*>(p.epilogue.bias), 0};
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  if (code == 0 && !out.fits()) copy_stack(in_out, out, out_type, context.stream);
  return code;
}

}  // namespace

Implementation batched_wgmma(const BatchedOp& op) {
  return kernels::make_cuda<Wgmma>("cuda_wgmma",
                                   source_hash<"ops/gemm/batched/batched_wgmma_cuda.cpp">(), &op);
}

}  // namespace dlblas::gemm
