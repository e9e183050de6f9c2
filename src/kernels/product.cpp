// Traits, parameters and refusals that the forms of product programs share; see product.hpp.
#include "kernels/product.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "core/integers.hpp"
#include "kernels/gemm_cuda.hpp"

namespace dlblas::kernels {
namespace {

constexpr int kWholeBytes = 16;

const ProductOp& op_of_gpu(const Query& q) { return q.user<ProductOp>(); }

bool is_aligned(const TensorTraits& t) {
  return t.dtype == DType::kAbsent || (1 << t.align_log2) >= size_of(t.dtype);
}

bool all_aligned(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  const TensorTraits* t = q.problem.tensors;
  bool aligned = is_aligned(t[op.x]) && is_aligned(t[op.y]);
  for (int part = 0; part < op.parts; ++part) aligned &= is_aligned(t[op.weights[part]]);
  for (const ProductOp::Operand& o : op.operands) aligned &= is_aligned(t[o.tensor]);
  return aligned;
}

/// True if 16-byte stores can write rows of the result.
bool has_vector_rows(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  const TensorTraits& y = q.problem.tensors[op.y];
  if (y.align_log2 < kAlignCap) return false;
  if (y.layout == Layout::kRowStrided) return true;
  return y.layout == Layout::kContiguous &&
         op.width(q.problem.dims) * size_of(y.dtype) % kWholeBytes == 0;
}

/// A vector over columns is a matrix whose one row serves all rows.
GemmMatrix matrix_of(const TensorView& t, Per per) {
  if (per == Per::kColumn) return {t.data, 0, t.shape[0] == 1 ? 1 : t.strides[0], t.dtype};
  const TensorView m = flat_rows(t);
  return {m.data, m.strides[0], m.strides[1], m.dtype};
}

std::string word(DType type) {
  return text("static_cast<dlblas::DType>(", static_cast<int>(type), ")");
}

}  // namespace

GemmSize product_size(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  const std::int64_t* dims = q.problem.dims;
  return {dims[op.rows], op.width(dims), dims[op.depth]};
}

double product_weight_bytes(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  const GemmSize s = product_size(q);
  return static_cast<double>(op.parts) * static_cast<double>(s.n) * static_cast<double>(s.k) *
         size_of(q.problem.tensors[op.x].dtype);
}

double product_bytes(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  const GemmSize s = product_size(q);
  const TensorTraits* t = q.problem.tensors;
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k);
  double bytes =
      product_weight_bytes(q) + m * k * size_of(t[op.x].dtype) + m * n * size_of(t[op.y].dtype);
  for (const ProductOp::Operand& o : op.operands)
    if (o.per == Per::kElement) bytes += m * n * size_of(t[o.tensor].dtype);
  return bytes;
}

TensorView flat_rows(const TensorView& t) {
  const Rows rows = rows_of(t);
  TensorView matrix = t;
  matrix.rank = 2;
  matrix.shape[0] = rows.count, matrix.shape[1] = t.shape[t.rank - 1];
  matrix.strides[0] = rows.count == 1 ? matrix.shape[1] : rows.stride;
  matrix.strides[1] = matrix.shape[1] == 1 ? 1 : t.strides[t.rank - 1];
  return matrix;
}

void check_flat_rows(const Args& args, std::initializer_list<int> tensors) {
  for (const int i : tensors) {
    if (!args.has(i)) continue;
    const TensorView& t = args.tensors[i];
    if (rows_of(t).rank == 1 || t.numel() == 0) continue;
    const std::string &op = args.schema->name,
                      &name = args.schema->tensors[static_cast<std::size_t>(i)].name;
    const char* expected = "rows at one stride";
    throw Error(ErrorKind::kArgument,
                text(op, ": ", name, " has leading dimensions that do not flatten; expected ",
                     expected, ", got several strides; pass a contiguous copy"),
                {op, name, expected, "several strides"});
  }
}

std::string product_text(const Query& q, std::string_view name, bool plain_result) {
  const ProductOp& op = op_of_gpu(q);
  const Problem& p = q.problem;
  std::int32_t options[kProductOptions] = {};
  if (op.choose) op.choose(p, options);
  const char* const yes[] = {"false", "true"};
  std::string s = text("dlblas::", name, "<", op.program, ", dlblas::ProductTraits{",
                       word(p.tensors[op.y].dtype), ", ", yes[plain_result || has_vector_rows(q)],
                       ", ", yes[plain_result || all_aligned(q)], ", {");
  for (int i = 0; i < kProductOperands; ++i) {
    const bool there = i < static_cast<int>(op.operands.size());
    const DType type =
        there ? p.tensors[op.operands[static_cast<std::size_t>(i)].tensor].dtype : DType::kAbsent;
    s += text(i ? ", " : "", word(type));
  }
  s += "}, {";
  for (int i = 0; i < kProductOptions; ++i) s += text(i ? ", " : "", options[i]);
  const ProductPairs pairs = product_pairs(q);
  return s + text("}, {", pairs.channels, ", ", yes[pairs.neighbours], "}, ",
                  yes[plain_result && folds_heads(q)], "}>");
}

GemmTraits product_gemm_traits(const Query& q, std::int32_t rows, std::int32_t span) {
  const ProductOp& op = op_of_gpu(q);
  const Problem& p = q.problem;
  GemmTraits g{};
  g.type = p.tensors[op.x].dtype;
  g.a_by_depth = p.tensors[op.x].layout != Layout::kTransposed;
  g.b_by_depth = p.tensors[op.weights[0]].layout != Layout::kTransposed;
  g.a_whole = g.b_whole = p.dims[op.depth] % 8 == 0;
  g.aligned = all_aligned(q);
  g.rows = rows, g.span = span;
  return g;
}

ProductGpuParams product_params(const ProductOp& op, const Args& args) {
  const TensorView x = flat_rows(args.tensors[op.x]), w = flat_rows(args.tensors[op.weights[0]]);
  ProductGpuParams params{};
  GemmCall& p = params.gemm;
  p.a = x.data, p.b[0] = w.data;
  if (op.parts == 2) p.b[1] = args.tensors[op.weights[1]].data;
  p.m = args.letters[op.rows], p.n = op.width(args.letters), p.k = args.letters[op.depth];
  p.a_row = p.m == 1 ? 0 : x.strides[0], p.a_col = p.k == 1 ? 0 : x.strides[1];
  p.b_row = p.k == 1 ? 0 : w.strides[1], p.b_col = p.n == 1 ? 0 : w.strides[0];
  const GemmMatrix y = matrix_of(args.tensors[op.y], Per::kElement);
  params.epilogue.out = {y.data, y.row, y.col};
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const auto [tensor, per] = op.operands[i];
    if (!args.has(tensor)) continue;
    const GemmMatrix o = matrix_of(args.tensors[tensor], per);
    params.epilogue.operands[i] = {o.data, o.row, o.col};
  }
  if (op.fill) op.fill(args, params.epilogue.numbers);
  if (op.scale >= 0) {
    const GemmMatrix scales = matrix_of(args.tensors[op.scale], Per::kElement);
    params.epilogue.operands[kScalePlace] = {scales.data, scales.row, scales.col};
    params.epilogue.numbers[kScaleStride] = scales.col;
  }
  return params;
}

ProductCpuTraits product_cpu_traits(const ProductOp& op, const Problem& problem) {
  ProductCpuTraits traits{&op, {}, {}};
  if (op.choose) op.choose(problem, traits.options);
  if (op.pairs) traits.pairs = op.pairs(problem);
  return traits;
}

ProductCpuParams product_cpu_params(const ProductCpuTraits& traits, const Args& args) {
  const ProductOp& op = *traits.op;
  ProductCpuParams p{};
  p.out = matrix_of(args.tensors[op.y], Per::kElement);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const auto [tensor, per] = op.operands[i];
    if (args.has(tensor)) p.operands[i] = matrix_of(args.tensors[tensor], per);
  }
  std::copy(std::begin(traits.options), std::end(traits.options), p.options);
  p.pairs = traits.pairs;
  if (op.fill) op.fill(args, p.numbers);
  return p;
}

Support product_sizes_fit(const Query& q) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 30) - 1;
  const auto [m, n, k] = product_size(q);
  for (const std::int64_t size : {m, n, k})
    if (size > kMax) return Support::no("a dimension is {}: at most {}", size, kMax);
  if (ceil_div(m, 16) * ceil_div(op_of_gpu(q).parts * n, 32) >= std::int64_t{1} << 31)
    return Support::no("the result has more tiles than a grid");
  return Support::yes();
}

Support product_fits_tensor_cores(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  const Problem& p = q.problem;
  if (p.tensors[op.x].dtype == DType::kF32)
    return Support::no("f32 stays IEEE here: tensor cores would round it to TF32");
  const int read[] = {op.x, op.weights[0], op.weights[op.parts - 1]};
  for (const int i : read) {
    const TensorTraits& t = p.tensors[i];
    if (t.layout != Layout::kContiguous && t.layout != Layout::kRowStrided)
      return Support::no("{} is not contiguous along K", tensor(i));
    if (t.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                         std::int64_t{1} << t.align_log2);
  }
  if (!all_aligned(q)) return Support::no("an operand is not aligned to its elements");
  return product_sizes_fit(q);
}

ProductPairs product_pairs(const Query& q) {
  const ProductOp& op = op_of_gpu(q);
  return op.pairs ? op.pairs(q.problem) : ProductPairs{};
}
std::int32_t columns_together(const Query& q) {
  const ProductPairs pairs = product_pairs(q);
  return pairs.neighbours ? 0 : pairs.channels;
}
bool folds_heads(const Query& q) {
  const std::int32_t channels = columns_together(q);
  return channels > 64 && channels % 64 == 0 && product_size(q).n % channels == 0 &&
         size_of(q.problem.tensors[op_of_gpu(q).y].dtype) == 2;
}
Support mma_has_columns(const Query& q) {
  const std::int32_t columns = columns_together(q);
  constexpr int kOfWarps[] = {64, 96, 128};
  for (const int wide : kOfWarps)
    if (columns == 0 || wide % columns == 0) return Support::yes();
  return Support::no("heads of {} channels are not those of a warp", columns);
}

bool tensor_cores_take_any_batch(const Query& q) {
  return q.problem.dims[op_of_gpu(q).depth] % 8 == 0 && product_fits_tensor_cores(q) &&
         mma_has_columns(q);
}

void copy_rows(const TensorView& from, const TensorView& to, void* stream) {
  const std::int64_t size = size_of(from.dtype);
  for (std::int64_t i = 0; i < from.shape[0]; ++i)
    cuda::copy_on_device(static_cast<char*>(to.data) + i * to.strides[0] * size,
                         static_cast<const char*>(from.data) + i * from.strides[0] * size,
                         static_cast<std::size_t>(from.shape[1] * size), stream);
}

TensorView packed_copy(const TensorView& matrix, const Context& context) {
  const std::int64_t size = size_of(matrix.dtype);
  TensorView to = matrix;
  to.strides[0] = round_up(matrix.shape[1], kWholeBytes / size), to.strides[1] = 1;
  to.data =
      context.alloc(context.self, static_cast<std::size_t>(to.shape[0] * to.strides[0] * size), 64);
  if (to.data) copy_rows(matrix, to, context.stream);
  return to;
}

void add_product_implementations(OperatorDef& def, const ProductOp& op) {
  const auto* const kept = new ProductOp(op);  // lives as long as the process, as the operator does
  append_product_cpu(def.implementations, *kept);
  append_product_composed(def.implementations, *kept);
  append_product_gemv(def.implementations, *kept);
  append_product_rows(def.implementations, *kept);
  append_product_wgmma(def.implementations, *kept);
  append_product_mma(def.implementations, *kept);
  append_product_fma(def.implementations, *kept);
}

}  // namespace dlblas::kernels
