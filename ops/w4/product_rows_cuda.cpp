// Products with packed weights on NVIDIA GPUs, for few rows: packed bytes are read once per 64 rows
// of x. In: Problem, Config; Args. Out: Kernel and its sources; launches.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: product_rows.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/w4/product_cuda.hpp"

namespace dlblas::w4 {
namespace {

using product::kM;

struct Form : ProductForm<Form, ProductTraits, ProductConfig> {
  static constexpr const char* kInclude = "ops/w4/product_rows.cuh";
  static constexpr const char* kConfigName = "dlblas::w4::ProductConfig";
  static constexpr const char* kKernel = "dlblas::w4::product_rows";

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::warps>("warps", {4, 8, 16}), field<&Config::unroll>("unroll", {1, 2, 4}),
        field<&Config::split>("split", {1, 2, 4, 8}), field<&Config::ahead>("ahead", {0, 1})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::w4::ProductTraits",
        {member<&Traits::type>("type"), member<&Traits::codes>("codes"),
         member<&Traits::zeros>("zeros"), member<&Traits::tiles>("tiles"),
         member<&Traits::scaled_sums>("scaled_sums"), member<&Traits::bias>("bias")}};
    return *members;
  }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    const auto& op = q.user<ProductOp>();
    const std::int64_t rows = p.dims[kM];
    const DType fourth = p.tensors[product::kZeros].dtype;
    const bool i8 = op.codes == Codes::kI8;
    // A step of 8-bit codes takes 64 rows of the weight: x of 64 rows has no room in registers.
    return {.type = p.tensors[product::kX].dtype,
            .codes = op.codes,
            .zeros = !i8 && fourth != DType::kAbsent,
            .tiles = rows <= 16         ? 1
                     : rows <= 32 || i8 ? 2
                                        : 4,
            .scaled_sums = op.scales_sums(p.dims),
            .bias = i8 ? fourth : DType::kAbsent};
  }

  static Support supports(const Query& q) { return supports_packed(q); }

  /// Batches of so many rows of the weight end where groups do. 8-bit codes with a scale per column
  /// may end anywhere.
  static bool whole_batches(const Query& q, std::int64_t rows) {
    const auto& op = q.user<ProductOp>();
    if (op.scales_sums(q.problem.dims)) return true;
    return op.group(q.problem.dims) % rows == 0 &&
           (op.codes != Codes::kI8 || op.depth(q.problem.dims) % rows == 0);
  }

  static std::int32_t bytes_of(const Traits& s, const Config& c) {
    return c.warps * s.sums() * 32 * 4;
  }
  static bool fits(const Query& q, const Config& c) {
    const Traits s = traits(q, c);
    const std::int64_t registers = s.sums() + s.loaded(c.unroll) * (c.ahead ? 2 : 1) + 40;
    return bytes_of(s, c) <= q.device.shared_bytes_per_block && registers * c.threads() <= 65536 &&
           registers <= 224 && whole_batches(q, c.unroll * s.depth());
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "batches_fit_groups_and_device", {"warps", "unroll", "ahead"},
                  [q = QueryCopy(q)](const Config& c) { return fits(q, c); });
    space.require(table(), "split_is_useful", [q = QueryCopy(q)](const Config& c) {
      const Query asked = q;
      const std::int64_t depth = asked.user<ProductOp>().depth(asked.problem.dims);
      return c.split == 1 ||
             (asked.problem.dims[kM] <= 64 && std::int64_t{c.split} * c.warps * 32 <= depth);
    });
  }

  /// Two blocks per multiprocessor, of eight warps with 16 loads in flight each.
  static Config preset(const Query& q) {
    const auto& op = q.user<ProductOp>();
    const std::int64_t rows = q.problem.dims[kM], depth = op.depth(q.problem.dims);
    Config c{8, 64 / traits(q, {}).depth(), 1};
    while (!fits(q, c) && c.unroll > 1) c.unroll /= 2;
    while (!fits(q, c) && c.warps > 4) c.warps /= 2;
    const std::int64_t blocks = ceil_div(op.columns(q.problem.dims), kProductColumns) *
                                ceil_div(rows, 16 * std::int64_t{traits(q, c).tiles});
    while (rows <= 64 && c.split < 8 && blocks * c.split < q.device.units &&
           std::int64_t{c.split} * 2 * c.warps * 32 <= depth)
      c.split *= 2;
    return c;
  }

  /// H200, 26 November 2026, 4096 × 14336 of AWQ in groups of 128: 23.7 µs at 1 row of x, 24.6 at
  /// 16, 76.9 at 64. That is a third of memory's rate and a seventh of the tensor cores', since a
  /// warp loads, unpacks and multiplies in turn.
  static double milliseconds(const Query& q, const Config& c) {
    const Problem& p = q.problem;
    const auto& op = q.user<ProductOp>();
    const Traits s = traits(q, c);
    const auto rows = static_cast<double>(p.dims[kM]), n = static_cast<double>(op.columns(p.dims));
    const double depth = static_cast<double>(op.depth(p.dims));
    const double blocks = n / kProductColumns * c.split;
    const double busy = std::min(1.0, blocks * c.warps / (12.0 * q.device.units));
    const double again = std::max(1.0, rows / (16.0 * s.tiles));
    // 8-bit codes, not measured yet: as many loads in flight bring twice as many codes' bytes per
    // instruction.
    const double share = op.codes == Codes::kI8 ? 0.5 : 0.33;
    const double memory =
        product::weight_bytes(op, p) / (share * busy * memory_bytes_per_s(q.device));
    // Each block reads x from L2; unpacking takes three instructions per two elements, again for
    // every 64 rows; then the products.
    const double x = 2 * rows * depth * n / kProductColumns / cache_bytes_per_s(q.device);
    const double made =
        again * depth * n * 1.5 / (unit_rates(q.device).f32_flops / 2 * q.device.units);
    const double products = 2 * again * 16 * s.tiles * depth * n / (0.14 * flops(q.device, s.type));
    return 1e3 * (launch_s(q.device) * (c.split > 1 ? 2 : 1) + 1e-6 +
                  std::max({memory, x, made + products}));
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return bytes_of(s.traits, s.config);
  }
  static cuda::Launch grid(const State& s, const ProductParams& p) {
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.w.columns, kProductColumns));
    how.grid.y = static_cast<unsigned>(s.config.split);
    how.grid.z = static_cast<unsigned>(ceil_div(p.m, 16 * std::int64_t{s.traits.tiles}));
    return how;
  }
};

}  // namespace

Support supports_packed(const Query& q) {
  const Problem& p = q.problem;
  const auto& op = q.user<ProductOp>();
  const bool i8 = op.codes == Codes::kI8;
  constexpr std::int64_t kLongest = 1 << 16, kMaxRows = 1 << 20;
  const std::int64_t step = i8 ? 64 : 32, load = 16;
  if (!op.scales_sums(p.dims) && op.group(p.dims) % step != 0)
    return Support::no("groups of {} rows are no multiple of {}", op.group(p.dims), step);
  if (op.depth(p.dims) > kLongest)
    return Support::no("K = {}: sums of more than {} terms", op.depth(p.dims), kLongest);
  if (i8 && op.depth(p.dims) == 0) return Support::no("K = 0: there are no scales");
  if (i8 && op.depth(p.dims) % (op.scales_sums(p.dims) ? load : step) != 0)
    return Support::no("K = {} is not a multiple of {}", op.depth(p.dims),
                       op.scales_sums(p.dims) ? load : step);
  if (!i8 && op.columns(p.dims) % 8 != 0)
    return Support::no("N = {} is not a multiple of 8", op.columns(p.dims));
  if (p.dims[product::kM] > kMaxRows) return Support::no("{} rows", p.dims[product::kM]);
  const auto lies = [&](int tensor, int align_log2) {
    const TensorTraits& t = p.tensors[tensor];
    return (t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided) &&
           t.align_log2 >= align_log2;
  };
  for (const int i : {int{product::kX}, int{product::kScales}, int{product::kQ}})
    if (!(i8 && i == product::kScales) &&
        !lies(i, i == product::kQ && op.codes == Codes::kAwq ? 2 : 4))
      return Support::no("rows of {} are not contiguous and aligned to 16 bytes", tensor(i));
  if (!i8 && p.tensors[product::kZeros].dtype != DType::kAbsent && !lies(product::kZeros, 2))
    return Support::no("rows of {} are not contiguous", tensor(product::kZeros));
  for (const int i : {int{product::kScales}, int{product::kBias}, int{product::kY}}) {
    const TensorTraits& t = p.tensors[i];
    const int element = size_of(t.dtype) == 4 ? 2 : 1;
    if (t.dtype != DType::kAbsent && t.align_log2 < element)
      return Support::no("{} is not aligned to its elements", tensor(i));
  }
  return Support::yes();
}

Support supports_streamed(const Query& q) {
  if (const Support packed = supports_packed(q); !packed) return packed;
  constexpr std::int64_t kRows = 64;  // of the weight, of a stage: of one group
  const auto& op = q.user<ProductOp>();
  const Problem& p = q.problem;
  if (op.codes == Codes::kI8)
    return op.scales_sums(p.dims)
               ? Support::yes()
               : Support::no("groups of {} of {} codes", op.group(p.dims), op.depth(p.dims));
  // A tensor map has no size of 0.
  if (op.depth(p.dims) == 0) return Support::no("K = 0: there is nothing to stream");
  if (op.group(p.dims) % kRows != 0)
    return Support::no("groups of {} rows are no multiple of {}", op.group(p.dims), kRows);
  for (const int i : {int{product::kQ}, int{product::kZeros}})
    if (p.tensors[i].dtype != DType::kAbsent && p.tensors[i].align_log2 < 4)
      return Support::no("rows of {} are not aligned to 16 bytes", tensor(i));
  if (!op.along_k() && op.columns(p.dims) % 32 != 0)
    return Support::no("N = {} is not a multiple of 32", op.columns(p.dims));
  return Support::yes();
}

ProductParams product_params(const ProductOp& op, const Args& args, void* workspace) {
  const TensorView x = product::flat(args.tensors[product::kX]);
  ProductParams p{};
  p.w.q = matrix_of(args.tensors[product::kQ]);
  p.w.scales = matrix_of(args.tensors[product::kScales]);
  if (args.has(product::kZeros)) {
    const TensorView& fourth = args.tensors[product::kZeros];
    if (op.codes == Codes::kI8)
      p.bias = fourth.data, p.bias_step = fourth.strides[0];
    else
      p.w.zeros = matrix_of(fourth);
  }
  p.w.y = matrix_of(product::flat(args.tensors[product::kY]));
  p.w.depth = op.depth(args.letters), p.w.columns = op.columns(args.letters);
  p.w.group = op.group(args.letters), p.w.plus = op.lacks_one(args) ? 1 : 0;
  p.x = x.data, p.x_row = x.strides[0], p.m = x.shape[0];
  p.partial = static_cast<float*>(workspace);
  return p;
}

Implementation product_rows_cuda(const ProductOp& op) {
  return kernels::make_cuda<Form>("cuda_packed", source_hash<"ops/w4/product_rows_cuda.cpp">(),
                                  &op);
}

}  // namespace dlblas::w4
