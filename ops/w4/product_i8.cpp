// Products with weights of 8-bit codes: what the definition shares with those of 4-bit codes, and
// the form for any shape and layout. It converts rows of the weight [N, K] to x's type in the
// workspace by `dequantize_group` and multiplies by `linear_residual`. With one scale per column
// the codes are converted as they are (their scale is 1), and the scale multiplies the f32 sum.
// In: Problem; Args. Out: Kernel; y. Flow: call > validate > [select] > compile > [launch].
// Read next: product.cpp, core/nested.hpp, mm_w8a16_group/.
#include <algorithm>
#include <cstring>

#include "core/nested.hpp"
#include "core/source_hash.hpp"
#include "cuda/cuda.hpp"
#include "ops/w4/product.hpp"

namespace dlblas::w4 {
namespace {

using namespace product;

struct State {
  const ProductOp* op;
  std::int64_t panel;  // columns of y
};

/// A panel of the weight in x's type; scales of 1 follow it.
std::int64_t weight_bytes_of(std::int64_t depth, std::int64_t panel) {
  return (2 * depth * panel + 255) / 256 * 256;
}

void write_ones(void* to, std::int64_t count, const Context& context) {
  constexpr float kOne = 1;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &kOne, sizeof(bits));
  if (context.device.type == DeviceType::kCpu)
    std::fill_n(static_cast<float*>(to), count, kOne);
  else if (count > 0)
    cuda::fill_words(to, bits, static_cast<std::size_t>(count), context.stream);
}

/// `count` elements of a dimension, from `first` on.
TensorView part_of(TensorView t, int dim, std::int64_t first, std::int64_t count) {
  t.data = static_cast<char*>(t.data) + first * t.strides[dim] * size_of(t.dtype);
  t.shape[dim] = count;
  return t;
}
TensorView without_columns(TensorView t) {
  t.rank = 1;
  return t;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State>();
  const std::int64_t depth = s.op->depth(args.letters), columns = s.op->columns(args.letters);
  const bool scales_sums = s.op->scales_sums(args.letters);
  const std::int64_t group = s.op->group(args.letters);
  const TensorView x = flat(args.tensors[kX]), y = flat(args.tensors[kY]);
  TensorView ones = args.tensors[kScales];
  ones.data = static_cast<char*>(workspace) + weight_bytes_of(depth, s.panel);
  ones.strides[0] = ones.shape[1], ones.strides[1] = 1;
  if (scales_sums && depth > 0) write_ones(ones.data, s.panel, context);
  for (std::int64_t n = 0; n < columns; n += s.panel) {
    const std::int64_t count = std::min(s.panel, columns - n);
    TensorView weight = x;
    weight.data = workspace, weight.shape[0] = count, weight.shape[1] = depth;
    weight.strides[0] = depth, weight.strides[1] = 1;
    const TensorView codes = part_of(args.tensors[kQ], 0, n, count);
    const TensorView scale = part_of(args.tensors[kScales], 0, n, count);
    const TensorView factors = without_columns(scale);
    ones.shape[0] = count;
    TensorView bias;
    if (args.has(kBias)) bias = part_of(args.tensors[kBias], 0, n, count);
    const char* const type = name_of(x.dtype).data();
    if (depth > 0)
      kernel.part(0)({codes, scales_sums ? ones : scale, group, type}, {weight}, context,
                     workspace);
    kernel.part(1)({x,
                    weight,
                    "",
                    {"bias", args.has(kBias) ? Value(bias) : Value()},
                    {"column_scale", scales_sums && depth > 0 ? Value(factors) : Value()}},
                   {part_of(y, 1, n, count)}, context, workspace);
  }
  return 0;
}

/// A part's view of a tensor of the problem.
PartValue sliced(const TensorTraits& t, bool whole, std::vector<std::int64_t> shape) {
  TensorTraits part = t;
  if (!whole && part.layout == Layout::kContiguous) part.layout = Layout::kRowStrided;
  return {part, std::move(shape)};
}

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = q.user<ProductOp>();
  const std::int64_t panel = panel_of(q), depth = op.depth(p.dims), columns = op.columns(p.dims);
  const std::int64_t group = std::max<std::int64_t>(1, op.group(p.dims));
  const std::int64_t groups = (depth + group - 1) / group;
  const bool scales_sums = op.scales_sums(p.dims);
  const DType type = p.tensors[kX].dtype;
  const PartValue scale = scales_sums ? PartValue(DType::kF32, {panel, groups})
                                      : PartValue(p.tensors[kScales], {panel, groups});
  TensorTraits factors = p.tensors[kScales];
  if (!scales_sums || depth == 0) factors.dtype = DType::kAbsent;
  const bool side_by_side =
      factors.layout == Layout::kContiguous || factors.layout == Layout::kTransposed;
  factors.layout = side_by_side ? Layout::kContiguous : Layout::kOther;
  return {{"dequantize_group",
           {{p.tensors[kQ], {panel, depth}}, scale, group, name_of(type).data()},
           {{type, {panel, depth}}}},
          {"linear_residual",
           {{p.tensors[kX], {p.dims[kM], depth}},
            {type, {panel, depth}},
            "",
            {"bias", PartValue(p.tensors[kBias], {panel})},
            {"column_scale", PartValue(factors, {panel})}},
           {sliced(p.tensors[kY], panel >= columns, {p.dims[kM], panel})}}};
}

Implementation panels(const char* name, DeviceType backend, const ProductOp& op) {
  Implementation impl = panels_form(name, backend, op);
  impl.source_hash = source_hash<"ops/w4/product_i8.cpp">();
  impl.parts = parts;
  impl.prepare = [](const Query& q, const Config&) {
    const auto& own = q.user<ProductOp>();
    const std::int64_t panel = panel_of(q);
    return make_kernel(
        {run}, State{&own, panel},
        static_cast<std::size_t>(weight_bytes_of(own.depth(q.problem.dims), panel) + 4 * panel));
  };
  return impl;
}

}  // namespace

OperatorDef i8_product(std::string_view schema, std::string_view formula, const ProductOp& op) {
  OperatorDef def;
  def.family = "w4";
  def.schema = schema;
  def.formula = formula;
  def.check = check;
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kY].dtype);
    return Bound{.magnitude = kRounding,
                 .value = out.eps / 2 * (1 + kRounding),
                 .absolute = out.tiny + 0x1p-125};
  };
  def.work_per_row = [](const Problem& problem) {
    // Each code is converted again for each row.
    return 8.0 * static_cast<double>(problem.dims[1]) * static_cast<double>(problem.dims[2]);
  };
  def.implementations = {product_ring_cuda(op), product_rows_cuda(op),
                         panels("cuda_dequantized", DeviceType::kCuda, op),
                         panels("cpu_dequantized", DeviceType::kCpu, op)};
  for (const Implementation& impl : few_rows_cpu(op)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::w4
