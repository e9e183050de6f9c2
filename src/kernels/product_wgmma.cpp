// Product programs on Hopper's WGMMA. With two parts, half of a tile's columns belong to each. In:
// a Problem of f16 or bf16, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// device/gemm/product_wgmma.cuh, wgmma_space.hpp, docs/notes/gemm.md.
#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/integers.hpp"
#include "kernels/cuda_form.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "kernels/product.hpp"
#include "kernels/wgmma_space.hpp"

namespace dlblas::kernels {
namespace {

using C = GemmWgmmaConfig;

struct Traits : GemmTraits {
  bool folded;
};

/// Columns that a program sees at once; 0: any.
std::int32_t strip_columns(const Query& q) {
  return folds_heads(q) ? 2 * kGemmFoldPiece : columns_together(q);
}

bool is_contiguous(Layout l) { return l == Layout::kContiguous || l == Layout::kRowStrided; }

/// The most sums per thread that leave registers for the operands of a strip of 64 columns.
std::int32_t most_sums(const Query& q) {
  const ProductOp& op = q.user<ProductOp>();
  int words = 0;
  for (const ProductOp::Operand& o : op.operands) {
    const DType type = q.problem.tensors[o.tensor].dtype;
    if (type == DType::kAbsent || o.per == Per::kPair) continue;
    words += o.per == Per::kRow ? 2 : o.per == Per::kElement ? 16 : 4 * size_of(type);
  }
  if (op.pairs && !folds_heads(q)) return 128;  // tables, and strips of whole heads
  return words == 0 ? 192 : words <= 16 ? 176 : words <= 32 ? 160 : 128;
}

WgmmaShape shape_of(const Query& q) {
  const ProductOp& op = q.user<ProductOp>();
  GemmSize whole = product_size(q);
  whole.n *= op.parts;
  const std::int32_t most = most_sums(q);
  return {whole,
          product_bytes(q),
          {.parts = op.parts,
           .columns = std::max({8, strip_columns(q), op.group}),
           .most_apart = most,
           .most_together = std::min(most, 176),
           .most_carried = 112},
          q.problem,
          q.device};
}

Support operands_fit(const Query& q) {
  const ProductOp& op = q.user<ProductOp>();
  for (const ProductOp::Operand& o : op.operands) {
    const TensorTraits& t = q.problem.tensors[o.tensor];
    if (t.dtype == DType::kAbsent) continue;
    if (o.per == Per::kColumn && (t.layout != Layout::kContiguous || t.align_log2 < 3))
      return Support::no("{} is not contiguous from a multiple of 8 bytes on", tensor(o.tensor));
    if (o.per == Per::kRow && t.layout != Layout::kContiguous)
      return Support::no("{} is not contiguous", tensor(o.tensor));
    if (o.per == Per::kPair && !is_contiguous(t.layout))
      return Support::no("rows of {} are not contiguous", tensor(o.tensor));
    if (o.per == Per::kPair && columns_together(q) > 0 && 1 << t.align_log2 < 2 * size_of(t.dtype))
      return Support::no("rows of {} are not aligned to two elements", tensor(o.tensor));
    if (o.per != Per::kElement) continue;
    if (size_of(t.dtype) != 2)
      return Support::no("elements of {} do not have 16 bits", tensor(o.tensor));
    if (!is_contiguous(t.layout) || t.align_log2 < 2)
      return Support::no("rows of {} are not contiguous from a multiple of 4 bytes on",
                         tensor(o.tensor));
  }
  return Support::yes();
}

struct Wgmma : CudaForm<Traits, C> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  static const ConfigTable<C>& table() { return wgmma_table(); }

  static Traits traits(const Query& q, const C& c) {
    return {product_gemm_traits(q, 0, shape_of(q).span(c)), folds_heads(q)};
  }

  static Support supports(const Query& q) {
    const ProductOp& op = q.user<ProductOp>();
    const GemmSize s = product_size(q);
    if (s.m == 0 || s.n == 0 || s.k == 0) return Support::no("a dimension is zero");
    if (const Support operands = product_fits_tensor_cores(q); !operands) return operands;
    if (const Support operands = operands_fit(q); !operands) return operands;
    const std::int32_t together = strip_columns(q);
    if (together % 16 != 0 || together > 256 || (together > 0 && together < 64 && 64 % together))
      return Support::no("heads of {} channels are not those of a strip", together);
    const TensorTraits& y = q.problem.tensors[op.y];
    if (!is_contiguous(y.layout)) return Support::no("rows of {} are not contiguous", tensor(op.y));
    if (y.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(op.y),
                         std::int64_t{1} << y.align_log2);
    const std::int64_t whole = 16 / size_of(y.dtype);  // the copy engine stores 16 bytes or none
    if (s.n % std::max<std::int64_t>(8, whole) != 0)
      return Support::no("{} columns: rows of {} are no multiples of 16 bytes", s.n, tensor(op.y));
    Space space(table());
    constrain(q, space);
    if (space.configs().empty()) return Support::no("no tile fits into shared memory");
    return Support::yes();
  }
  /// Tiles that take all of K add up as cuda_mma does, bit for bit (tests/test_same_bits_wgmma.py).
  static Support same_bits(const Query& q) {
    const ProductOp& op = q.user<ProductOp>();
    if (op.pairs || op.group > 0)
      return Support::no("combines columns with other roundings than what takes any batch");
    if (tensor_cores_take_any_batch(q)) return Support::yes();
    return Support::no("another batch may have a layout that only cuda_fma takes");
  }
  static void constrain(const Query& q, Space& space) { shape_of(q).constrain(space); }
  static double milliseconds(const Query& q, const C& c) { return shape_of(q).milliseconds(c); }
  static C preset(const Query& q) {
    const WgmmaShape shape = shape_of(q);
    return least_estimate<Wgmma>(q, {false, 64, 16, 64, 1, false, GemmShare::kNone, 1, 2, false, 8},
                                 [&](const C& c) { return shape.milliseconds(c); });
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(true, s.traits.span);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{q.user<ProductOp>().include,
             wgmma_entry(s.traits, s.config, product_text(q, "ProductWgmma", true)),
             s.shared_bytes}};
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// False for a view that a tensor map cannot describe, reversed or overlapping: its layout class is
/// that of a plain one.
bool fits(const TensorView& t) {
  return t.shape[0] <= 1 || (t.strides[0] >= t.shape[1] && t.strides[0] < std::int64_t{1} << 31);
}
WgmmaMatrix matrix_of(const TensorView& t) {
  return {t.data, t.shape[1], t.shape[0], t.shape[0] <= 1 ? round_up(t.shape[1], 8) : t.strides[0]};
}

int Wgmma::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const ProductOp*>(s.user);
  const int tensors[] = {op.x, op.weights[0], op.weights[op.parts - 1]};
  TensorView read[3];
  for (int i = 0; i < 3; ++i) {
    read[i] = flat_rows(args.tensors[tensors[i]]);
    if (!fits(read[i])) read[i] = packed_copy(read[i], context);
    if (!read[i].data) return kNoMemory;
  }
  const TensorView y = flat_rows(args.tensors[op.y]);
  TensorView out = y;  // a result's rows do not overlap, but may be reversed: then a copy goes back
  if (!fits(y)) out = packed_copy(y, context);
  if (!out.data) return kNoMemory;
  const WgmmaProduct product = {.type = s.traits.type,
                                .out_type = y.dtype,
                                .a = matrix_of(read[0]),
                                .b = {matrix_of(read[1]), matrix_of(read[2])},
                                .out = matrix_of(out),
                                .a_by_depth = true,
                                .b_by_depth = true,
                                .parts = op.parts,
                                .m = args.letters[op.rows],
                                .n = op.width(args.letters),
                                .k = args.letters[op.depth],
                                .folded = s.traits.folded};
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = prepare_wgmma(product, s.config, s.units, call, how)) return code;
  const ProductParams p = product_params(op, args).epilogue;
  for (int i = 0; i < kProductOperands; ++i)
    call.operands[i] = {p.operands[i].data, p.operands[i].row};
  for (int i = 0; i < kProductNumbers; ++i)
    call.numbers[i] = static_cast<std::int32_t>(p.numbers[i]);
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  if (code == 0 && out.data != y.data) copy_rows(out, y, context.stream);
  return code;
}

}  // namespace

void append_product_wgmma(std::vector<Implementation>& to, const ProductOp& op) {
  to.push_back(make_cuda<Wgmma>("cuda_wgmma", op.hash, &op));
}

}  // namespace dlblas::kernels
