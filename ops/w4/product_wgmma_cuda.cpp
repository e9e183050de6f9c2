// Products with packed weights on Hopper's WGMMA, whose A is unpacked from words in registers:
// which configurations exist, their estimated times, and the launch. In: Problem, Config; Args.
// Out: Kernel and its source; launches. Flow: call > validate > [select] > [compile] > [launch].
// Read next: product_wgmma.cuh, product_cuda.hpp, docs/notes/gemm.md.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/w4/product_cuda.hpp"

namespace dlblas::w4 {
namespace {

using product::kM;

/// Describes boxes of a matrix whose rows are `row` elements apart; false if the copy engine cannot
/// read it.
bool encode(TensorMap& map, DType type, const void* data, std::int64_t rows, std::int64_t columns,
            std::int64_t row, int box_rows, int box_columns, cuda::Swizzle swizzle) {
  cuda::TensorMapSpec spec;
  spec.dtype = type, spec.swizzle = swizzle;
  spec.data = rows * columns > 0 ? data : &map;
  spec.sizes[0] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, columns));
  spec.sizes[1] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, rows));
  spec.box[0] = static_cast<std::uint32_t>(box_columns);
  spec.box[1] = static_cast<std::uint32_t>(box_rows);
  const std::int64_t size = size_of(type);
  spec.strides_bytes[0] =
      static_cast<std::uint64_t>(rows > 1 ? row * size : (columns * size + 15) / 16 * 16);
  return cuda::encode_tensor_map(map, spec) == 0;
}

struct Wgmma : ProductForm<Wgmma, WgmmaTraits, WgmmaConfig> {
  static constexpr bool kHopper = true;
  static constexpr const char* kInclude = "ops/w4/product_wgmma.cuh";
  static constexpr const char* kConfigName = "dlblas::w4::WgmmaConfig";
  static constexpr const char* kEntry = "dlblas::w4::product_wgmma";
  static constexpr std::int64_t kDepth = Config::kDepth, kColumns = Config::kColumns;
  /// CUDA_ERROR_INVALID_VALUE. Not expected: there is a map for everything that `supports` accepts.
  static constexpr int kNotWalked = 1;

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::groups>("groups", {1, 2, 3, 4}),
                                field<&Config::stages>("stages", {2, 4, 6, 8, 10, 12, 16}),
                                field<&Config::split>("split", {1, 2, 3, 4, 5, 6, 7, 8})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::w4::WgmmaTraits",
        {member<&Traits::type>("type"), member<&Traits::codes>("codes"),
         member<&Traits::zeros>("zeros"), member<&Traits::rows>("rows"),
         member<&Traits::scaled_sums>("scaled_sums"), member<&Traits::bias>("bias")}};
    return *members;
  }
  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    const std::int64_t rows = p.dims[kM];
    const Codes codes = q.user<ProductOp>().codes;
    const bool i8 = codes == Codes::kI8;
    const DType fourth = p.tensors[product::kZeros].dtype;
    return {.type = p.tensors[product::kX].dtype,
            .codes = codes,
            .zeros = !i8 && fourth != DType::kAbsent,
            .rows = rows <= 8    ? 8
                    : rows <= 16 ? 16
                    : rows <= 32 ? 32
                                 : 64,
            .scaled_sums = i8,
            .bias = i8 ? fourth : DType::kAbsent};
  }

  static Support supports(const Query& q) {
    if (const Support packed = supports_streamed(q); !packed) return packed;
    const auto& op = q.user<ProductOp>();
    if (op.columns(q.problem.dims) >= std::int64_t{1} << 31)
      return Support::no("N = {}", op.columns(q.problem.dims));
    return Support::yes();
  }

  static std::int64_t depth_of(const Query& q) {
    return ceil_div(q.user<ProductOp>().depth(q.problem.dims), kDepth);
  }
  static bool fits(const Query& q, const Config& c) {
    const Traits s = traits(q, c);
    // Sums; A of two steps, factors of eight columns, words and addresses. GPTQ's sixteen words
    // spilled beside the sums of 64 rows.
    const int registers = 2 * s.rows + 85 + (s.along_k() && s.rows == 64 ? 20 : s.i8() ? 7 : 0);
    return c.shared_bytes(s) <= q.device.shared_bytes_per_block && registers <= c.many();
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "fits_device", {"groups", "stages"},
                  [q = QueryCopy(q)](const Config& c) { return fits(q, c); });
    // A warpgroup holds one stage while it waits for its next.
    space.require(table(), "two_stages_a_group", {"groups", "stages"},
                  [](const Config& c) { return c.stages >= 2 * c.groups; });
    space.require(table(), "split_is_useful", {"groups", "split"},
                  [q = QueryCopy(q)](const Config& c) {
                    return c.split * c.groups == 1 || depth_of(q) >= 2 * c.split * c.groups;
                  });
  }

  static Config preset(const Query& q) { return kernels::least_estimate<Wgmma>(q, {1, 4, 1}); }

  /// Blocks that run at a time. A cluster stays within one GPC; the 132 multiprocessors of an H200
  /// form six GPCs of 18, one of 16 and one of 8.
  static double at_a_time(const DeviceInfo& device, int split) {
    return split * device.units / 132.0 * (6 * (18 / split) + 16 / split + 8 / split);
  }
  /// The steps of the busiest multiprocessor, whose unpacking and products overlap little (fitted
  /// to an H200 and an H100); streaming the weight; adding a cluster's sums.
  static double milliseconds(const Query& q, const Config& c) {
    const Problem& p = q.problem;
    const auto& op = q.user<ProductOp>();
    const Traits s = traits(q, c);
    const auto rows = static_cast<double>(p.dims[kM]), n = static_cast<double>(op.columns(p.dims));
    const double again = std::max(1.0, std::ceil(rows / s.rows));
    const double tiles = std::max(1.0, std::ceil(n / kColumns)) * again;
    const double waves = std::ceil(tiles * c.split / at_a_time(q.device, c.split));
    const double stages = std::ceil(static_cast<double>(depth_of(q)) / c.split);
    // A stage is 64 tiles of 16 × 16 of the weight, and 16 WGMMA instructions.
    const double unpacked = s.i8()        ? 690
                            : s.along_k() ? 480
                                          : 400,
                 multiplied = 16 * (8 + 0.4 * s.rows);
    const double alone = c.groups == 1 ? 120 : 0;  // latencies that one warpgroup cannot hide
    const double clock = unit_rates(q.device).f32_flops / 256;
    const double cycles = waves * stages * (unpacked + multiplied + alone);
    const double in_flight = std::min(1.0, tiles * c.split / q.device.units) * (c.stages - 1) *
                             (Config::word_bytes(s) + (s.i8() ? 0 : Config::kScales));
    const double memory = again * product::weight_bytes(op, p) /
                          (0.85 * memory_bytes_per_s(q.device) * std::min(1.0, in_flight / 56e3));
    const double sums =
        waves * (0.2e-6 * c.groups + (c.split > 1 ? 1e-6 : 0) + 1.5e-6 * s.rows / 64);
    return 1e3 * (launch_s(q.device) + 0.3e-6 + std::max(memory, cycles / clock) + sums) +
           1e-9 * (s.i8() ? 16 - c.stages : c.stages);  // deeper rings help with i8 alone
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits);
  }
  static std::size_t workspace_bytes(const Query&, const State&) { return 0; }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{kInclude, kernels::cuda_entry<Wgmma>(kEntry, s), s.shared_bytes}};
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const auto& op = *static_cast<const ProductOp*>(s.user);
    WgmmaCall call{};
    ProductParams& p = call.p;
    p = product_params(op, args, nullptr);
    if (p.m == 0 || p.w.columns == 0) return 0;
    const DType type = s.traits.type;
    const std::int64_t words = op.along_k() ? p.w.columns : p.w.columns / 8;
    const std::int64_t words_down = op.along_k() ? p.w.depth / 8 : p.w.depth;
    const std::int64_t groups = p.w.depth / std::max<std::int64_t>(1, p.w.group);
    constexpr auto kNone = cuda::Swizzle::kNone, k128 = cuda::Swizzle::k128;
    const auto walks_words = [&] {
      if (s.traits.i8())
        return encode(call.words, DType::kI8, p.w.q.data, p.w.columns, p.w.depth, p.w.q.row,
                      kColumns, kDepth, cuda::Swizzle::k64);
      return encode(call.words, DType::kI32, p.w.q.data, words_down, words, p.w.q.row,
                    op.along_k() ? kDepth / 8 : kDepth, op.along_k() ? kColumns : kColumns / 8,
                    op.along_k() ? kNone : k128) &&
             encode(call.scales, type, p.w.scales.data, groups, p.w.columns, p.w.scales.row, 1,
                    kColumns, kNone) &&
             (!s.traits.zeros ||
              encode(call.zeros, DType::kI32, p.w.zeros.data, groups, ceil_div(p.w.columns, 8),
                     p.w.zeros.row, 1, kColumns / 8, kNone));
    };
    if (!walks_words() ||
        !encode(call.x, type, p.x, p.m, p.w.depth, p.x_row, s.traits.rows, kDepth, k128))
      return kNotWalked;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.w.columns, kColumns) * s.config.split);
    how.grid.z = static_cast<unsigned>(ceil_div(p.m, s.traits.rows));
    how.cluster = static_cast<unsigned>(s.config.split);
    how.block.x = static_cast<unsigned>(s.config.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    return cuda::launch(*kernel.entries[0], how, call, context.stream);
  }
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

}  // namespace

Implementation product_wgmma_cuda(const ProductOp& op) {
  return kernels::make_cuda<Wgmma>("cuda_wgmma", source_hash<"ops/w4/product_wgmma_cuda.cpp">(),
                                   &op);
}

}  // namespace dlblas::w4
