// Traits and parameters of the GPU forms of gated_linear; see gated_linear_cuda.hpp.
#include "ops/mlp/gated_linear/cuda/gated_linear_cuda.hpp"

#include <algorithm>

#include "kernels/product.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

constexpr int kOperands = 4;
constexpr int kWholeBytes = 16;

bool is_aligned(const TensorTraits& t) { return (1 << t.align_log2) >= size_of(t.dtype); }

bool has_vector_rows(const Problem& p) {
  const TensorTraits& y = p.tensors[kY];
  if (y.align_log2 < kAlignCap) return false;
  if (y.layout == Layout::kRowStrided) return true;
  return y.layout == Layout::kContiguous && p.dims[kF] * size_of(y.dtype) % kWholeBytes == 0;
}

}  // namespace

GatedGpuTraits gated_traits(const Problem& p, std::int32_t rows, std::int32_t span) {
  GatedGpuTraits s{};
  GemmTraits& g = s.gemm;
  g.type = p.tensors[kX].dtype;
  g.a_by_depth = p.tensors[kX].layout != Layout::kTransposed;
  g.b_by_depth = p.tensors[kGate].layout != Layout::kTransposed;
  g.a_whole = g.b_whole = p.dims[kK] % 8 == 0;
  g.aligned = std::all_of(p.tensors, p.tensors + kOperands, is_aligned);
  g.rows = rows, g.span = span;
  s.gated = {p.tensors[kY].dtype, has_vector_rows(p), g.aligned,
             static_cast<Gate>(p.scalars[kActivation])};
  return s;
}

GatedGpuParams gated_params(const Args& args) {
  const TensorView x = flat(args.tensors[kX]), gate = flat(args.tensors[kGate]),
                   up = flat(args.tensors[kUp]), y = flat(args.tensors[kY]);
  GatedGpuParams params{};
  GemmCall& p = params.gemm;
  p.a = x.data, p.b[0] = gate.data, p.b[1] = up.data;
  p.m = args.letters[kT], p.n = args.letters[kF], p.k = args.letters[kK];
  p.a_row = p.m == 1 ? 0 : x.strides[0], p.a_col = p.k == 1 ? 0 : x.strides[1];
  p.b_row = p.k == 1 ? 0 : gate.strides[1], p.b_col = p.n == 1 ? 0 : gate.strides[0];
  params.gated = {{y.data, y.strides[0], y.strides[1]}, nullptr, p.n};
  return params;
}

const TraitsTable<GatedLinearTraits>& gated_table() {
  using T = GatedLinearTraits;
  static const auto* table =
      new TraitsTable<T>{"dlblas::mlp::GatedLinearTraits",
                         {member<&T::out>("out"), member<&T::out_vector>("out_vector"),
                          member<&T::aligned>("aligned"), member<&T::gate>("gate")}};
  return *table;
}

std::string gated_text(std::string_view name, const GatedLinearTraits& traits) {
  return text("dlblas::mlp::", name, "<", gated_table().literal(traits), ">");
}

Support supports_sizes(const Problem& p) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 30) - 1;
  for (const int letter : {kT, kK, kF})
    if (p.dims[letter] > kMax)
      return Support::no("a dimension is {}: at most {}", p.dims[letter], kMax);
  const std::int64_t blocks = ceil_div(p.dims[kT], 16) * ceil_div(2 * p.dims[kF], 32);
  if (blocks >= std::int64_t{1} << 31)
    return Support::no("the result has {} tiles: more than a grid has blocks", blocks);
  return Support::yes();
}

Support supports_tensor_cores(const Problem& p) {
  if (p.tensors[kX].dtype == DType::kF32)
    return Support::no("f32 stays IEEE here: tensor cores would round it to TF32");
  for (const int i : {kX, kGate, kUp}) {
    const TensorTraits& t = p.tensors[i];
    if (t.layout != Layout::kContiguous && t.layout != Layout::kRowStrided)
      return Support::no("{} is not contiguous along K", tensor(i));
    if (t.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                         std::int64_t{1} << t.align_log2);
  }
  if (!is_aligned(p.tensors[kY]))
    return Support::no("{} is not aligned to its elements", tensor(kY));
  return supports_sizes(p);
}

bool tensor_cores_take_any_batch(const Problem& p) {
  return p.dims[kK] % 8 == 0 && supports_tensor_cores(p);
}

void copy_rows(const TensorView& from, const TensorView& to, void* stream) {
  kernels::copy_rows(from, to, stream);
}
TensorView packed_copy(const TensorView& matrix, const Context& context) {
  return kernels::packed_copy(matrix, context);
}

int align_weights(const Args& args, const Context& context, GemmCall& call) {
  const TensorView gate = flat(args.tensors[kGate]), up = flat(args.tensors[kUp]);
  if (call.n <= 1 || gate.strides[0] == up.strides[0]) return 0;
  const TensorView first = packed_copy(gate, context), second = packed_copy(up, context);
  if (!first.data || !second.data) return kNoMemory;
  call.b[0] = first.data, call.b[1] = second.data, call.b_col = first.strides[0];
  return 0;
}

}  // namespace dlblas::mlp
