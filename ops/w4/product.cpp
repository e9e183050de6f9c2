// Products with 4-bit weights: what the definitions share, and the form for any shape and layout,
// which dequantises columns of the weight into the workspace and multiplies them by `matmul`. A CPU
// takes as many columns at a time as its cache holds, a GPU all of them.
// In: Problem; Args. Out: Kernel; y. Flow: call > validate > [select] > compile > [launch].
// Read next: core/nested.hpp, product_rows_cuda.cpp.
#include "ops/w4/product.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/nested.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"

namespace dlblas::w4 {
namespace product {

void check(const Args& args) {
  for (const int i : {int{kX}, int{kY}}) {
    const TensorView& t = args.tensors[i];
    if (rows_of(t).rank == 1 || t.numel() == 0) continue;
    const std::string name = args.schema->tensors[static_cast<std::size_t>(i)].name;
    const char* expected = "rows at one stride";
    throw Error(ErrorKind::kArgument,
                text(args.schema->name, ": ", name,
                     " has leading dimensions that do not flatten; expected ", expected,
                     ", got several strides; pass a contiguous copy"),
                {args.schema->name, name, expected, "several strides"});
  }
}

TensorView flat(const TensorView& t) {
  const Rows rows = rows_of(t);
  TensorView matrix = t;
  matrix.rank = 2;
  matrix.shape[0] = rows.count, matrix.shape[1] = t.shape[t.rank - 1];
  matrix.strides[0] = rows.stride, matrix.strides[1] = t.strides[t.rank - 1];
  return matrix;
}

std::int64_t panel_of(const Query& q) {
  const auto& op = q.user<ProductOp>();
  const std::int64_t columns = op.columns(q.problem.dims);
  if (q.problem.device_type != DeviceType::kCpu) return columns;
  constexpr std::int64_t kBytes = 4 << 20;
  const std::int64_t depth = std::max<std::int64_t>(1, op.depth(q.problem.dims));
  const std::int64_t most = std::max<std::int64_t>(64, kBytes / (2 * depth) / 64 * 64);
  const std::int64_t panels = (columns + most - 1) / most;
  if (panels <= 1) return columns;
  return ((columns + panels - 1) / panels + 63) / 64 * 64;
}

namespace {

struct State {
  const ProductOp* op;
  std::int64_t panel;  // columns
};

/// A matrix from column `from` on; `per`: columns per element.
TensorView part_of(const TensorView& t, std::int64_t from, std::int64_t columns, int per) {
  TensorView part = t;
  part.data = static_cast<char*>(t.data) + from / per * t.strides[1] * size_of(t.dtype);
  part.shape[1] = (columns + per - 1) / per;
  return part;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State>();
  const ProductOp& op = *s.op;
  const std::int64_t depth = op.depth(args.letters), columns = op.columns(args.letters);
  const TensorView x = flat(args.tensors[kX]), y = flat(args.tensors[kY]);
  for (std::int64_t n = 0; n < columns; n += s.panel) {
    const std::int64_t count = std::min(s.panel, columns - n);
    TensorView weight = x;
    weight.data = workspace, weight.shape[0] = depth, weight.shape[1] = count;
    weight.strides[0] = count, weight.strides[1] = 1;
    const TensorView words = part_of(args.tensors[kQ], n, count, op.along_k() ? 1 : 8);
    const TensorView scales = part_of(args.tensors[kScales], n, count, 1);
    TensorView zeros;
    if (args.has(kZeros)) zeros = part_of(args.tensors[kZeros], n, count, 8);
    const Value stored = args.has(kZeros) ? Value(zeros) : Value();
    if (op.along_k())
      kernel.part(0)({words, scales, stored, op.group(args.letters), op.lacks_one(args)}, {weight},
                     context, workspace);
    else
      kernel.part(0)({words, scales, stored}, {weight}, context, workspace);
    kernel.part(1)({x, weight}, {part_of(y, n, count, 1)}, context, workspace);
  }
  return 0;
}

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = q.user<ProductOp>();
  const std::int64_t panel = panel_of(q), depth = op.depth(p.dims), columns = op.columns(p.dims);
  const std::int64_t groups = depth / std::max<std::int64_t>(1, op.group(p.dims));
  const auto sliced = [&](int tensor) {
    TensorTraits t = p.tensors[tensor];
    if (panel < columns && t.layout == Layout::kContiguous) t.layout = Layout::kRowStrided;
    return t;
  };
  const DType type = p.tensors[kX].dtype;
  Part weight{op.dequantize,
              {{sliced(kQ), {op.along_k() ? depth / 8 : depth, op.along_k() ? panel : panel / 8}},
               {sliced(kScales), {groups, panel}},
               {sliced(kZeros), {groups, (panel + 7) / 8}}},
              {{type, {depth, panel}}}};
  if (op.along_k()) {
    weight.values.emplace_back(op.group(p.dims));
    weight.values.emplace_back(true);
  }
  return {weight,
          {"matmul",
           {{p.tensors[kX], {p.dims[kM], depth}}, {type, {depth, panel}}},
           {{sliced(kY), {p.dims[kM], panel}}}}};
}

/// Milliseconds of the forms that dequantise the weight and multiply by it.
double panels_estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const auto& op = q.user<ProductOp>();
  const double weight =
      static_cast<double>(op.depth(p.dims)) * static_cast<double>(op.columns(p.dims));
  const double code = op.codes == Codes::kI8 ? 1 : 0.5;  // bytes
  const double io = 2 * static_cast<double>(p.dims[kM]) *
                    static_cast<double>(op.depth(p.dims) + op.columns(p.dims));
  const double work = 2 * multiply_adds(op, p);
  if (p.device_type == DeviceType::kCpu) {
    const double units = std::max<double>(1, p.threads);
    return 1e3 * launch_s(q.device) + unit_rates(q.device).roofline_ms(units, code * weight + io,
                                                                       work + 12 * weight,
                                                                       DType::kF32);
  }
  const double made = 1.1 * (2 + code) * weight / memory_bytes_per_s(q.device);
  return 1e3 * (2 * launch_s(q.device) + made) +
         roofline_ms(q.device, 2 * weight + io, work / 0.85, p.tensors[kX].dtype);
}

}  // namespace

Implementation panels_form(const char* name, DeviceType backend, const ProductOp& op) {
  Implementation impl;
  impl.name = name;
  impl.backend = backend;
  impl.flags = {.deterministic = true, .capturable = true};
  impl.user = &op;
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.estimate = panels_estimate;
  return impl;
}

namespace {

Implementation panels(const char* name, DeviceType backend, const ProductOp& op) {
  Implementation impl = panels_form(name, backend, op);
  impl.source_hash = source_hash<"ops/w4/product.cpp">();
  impl.parts = parts;
  impl.prepare = [](const Query& q, const Config&) {
    const std::int64_t panel = panel_of(q);
    const std::int64_t depth = q.user<ProductOp>().depth(q.problem.dims);
    return make_kernel({run}, State{&q.user<ProductOp>(), panel},
                       static_cast<std::size_t>(2 * depth * panel));
  };
  return impl;
}

}  // namespace
}  // namespace product

OperatorDef w4_product(std::string_view schema, std::string_view formula, const ProductOp& op) {
  OperatorDef def;
  def.family = "w4";
  def.schema = schema;
  def.formula = formula;
  def.check = product::check;
  // As in matmul: the sum's roundings; half of f32's smallest step per product (2^-126 where a CPU
  // counts operands below f32's normal range as zero); then one rounding.
  def.bound = [](const Problem& problem, int) {
    const std::int64_t* d = problem.dims;
    const double count = 3 + 8 * static_cast<double>(d[1]);
    const TensorTraits& y = problem.tensors[product::kY];
    const FloatTraits out = float_traits(y.dtype);
    const double step = y.dtype == DType::kBF16 ? 0x1p-126 : float_traits(DType::kF32).tiny / 2;
    return Bound{.magnitude = kRounding,
                 .value = out.eps / 2 * (1 + kRounding),
                 .absolute = out.tiny + count * step};
  };
  def.work_per_row = [](const Problem& problem) {
    // Each element of the weight is unpacked again for each row.
    return 64.0 * static_cast<double>(problem.dims[1]) * static_cast<double>(problem.dims[2]);
  };
  def.implementations = {product_wgmma_cuda(op), product_ring_cuda(op), product_rows_cuda(op),
                         product::panels("cuda_dequantized", DeviceType::kCuda, op),
                         product::panels("cpu_dequantized", DeviceType::kCpu, op)};
  for (const Implementation& impl : few_rows_cpu(op)) def.implementations.push_back(impl);
  return def;
}

}  // namespace dlblas::w4
