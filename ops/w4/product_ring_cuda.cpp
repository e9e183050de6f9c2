// Products with packed weights on NVIDIA GPUs, for some tens of rows of x: everything streams
// through shared memory. In: Problem, Config; Args. Out: Kernel and its sources; launches.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: product_ring.cuh,
// product_cuda.hpp.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/w4/product_cuda.hpp"

namespace dlblas::w4 {
namespace {

using product::kM;

struct Ring : ProductForm<Ring, RingTraits, RingConfig> {
  static constexpr const char* kInclude = "ops/w4/product_ring.cuh";
  static constexpr const char* kConfigName = "dlblas::w4::RingConfig";
  static constexpr const char* kKernel = "dlblas::w4::product_ring";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::warps_n>("warps_n", {1, 2, 4}),
                                field<&Config::warps_k>("warps_k", {1, 2, 4, 8}),
                                field<&Config::stages>("stages", {2, 3, 4, 6}),
                                field<&Config::split>("split", {1, 2, 4, 8, 16})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::w4::RingTraits",
        {member<&Traits::type>("type"), member<&Traits::codes>("codes"),
         member<&Traits::zeros>("zeros"), member<&Traits::eights>("eights"),
         member<&Traits::scaled_sums>("scaled_sums"), member<&Traits::bias>("bias")}};
    return *members;
  }
  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    const std::int64_t rows = p.dims[kM];
    const auto& op = q.user<ProductOp>();
    const DType fourth = p.tensors[product::kZeros].dtype;
    const bool i8 = op.codes == Codes::kI8;
    // 8-bit codes: a thread holds x of a whole stage, for which 64 rows leave no registers.
    return {.type = p.tensors[product::kX].dtype,
            .codes = op.codes,
            .zeros = !i8 && fourth != DType::kAbsent,
            .eights = rows <= 8          ? 1
                      : rows <= 16       ? 2
                      : rows <= 32 || i8 ? 4
                                         : 8,
            .scaled_sums = i8,
            .bias = i8 ? fourth : DType::kAbsent};
  }

  static Support supports(const Query& q) { return supports_streamed(q); }

  static bool fits(const Query& q, const Config& c) {
    const Traits s = traits(q, c);
    if (c.threads() < 64 || c.threads() > 512) return false;
    if (c.shared_bytes(s) > q.device.shared_bytes_per_block) return false;
    // Registers for a thread's sums, x and words; a chunk of x for at least every fourth thread.
    const int registers = (s.i8() ? 24 : 20) * s.eights + 72;
    return registers * c.threads() <= 65536 && 8 * s.eights * c.depth() / 8 >= c.threads() / 4;
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "fits_device", {"warps_n", "warps_k", "stages"},
                  [q = QueryCopy(q)](const Config& c) { return fits(q, c); });
    space.require(table(), "columns_useful", {"warps_n"}, [q = QueryCopy(q)](const Config& c) {
      const Query asked = q;
      return c.warps_n == 1 ||
             c.columns() / 2 < asked.user<ProductOp>().columns(asked.problem.dims);
    });
    space.require(table(), "depth_useful", {"warps_k", "split"},
                  [q = QueryCopy(q)](const Config& c) {
                    const Query asked = q;
                    const std::int64_t depth = asked.user<ProductOp>().depth(asked.problem.dims);
                    return (c.split == 1 || asked.problem.dims[kM] <= 256) &&
                           (c.split == 1 || std::int64_t{c.split} * c.depth() <= depth) &&
                           (c.warps_k <= 2 || c.depth() / 2 < depth);  // blocks have two warps
                  });
  }

  static Config preset(const Query& q) { return kernels::least_estimate<Ring>(q, {1, 2, 2, 1}); }

  /// The slowest of three: the fullest multiprocessor's 64 × 64 tiles of the weight, each bound by
  /// its integer instructions and products, or by one warp's time for it where there are few warps;
  /// streaming the weight, by blocks that keep memory busy; and each block's reads of x from L2.
  /// Adds launches and parts of K.
  static double milliseconds(const Query& q, const Config& c) {
    const Problem& p = q.problem;
    const auto& op = q.user<ProductOp>();
    const Traits s = traits(q, c);
    const auto rows = static_cast<double>(p.dims[kM]), n = static_cast<double>(op.columns(p.dims));
    const auto depth = static_cast<double>(op.depth(p.dims));
    const double again = std::max(1.0, std::ceil(rows / (8.0 * s.eights)));
    const double blocks = std::max(1.0, std::ceil(n / c.columns())) * c.split * again;
    const int registers = 20 * s.eights + 72;
    const int a_unit =
        std::max<int>(1, std::min(q.device.shared_bytes_per_unit / (c.shared_bytes(s) + 1024),
                                  65536 / (registers * c.threads())));
    const double fullest = std::ceil(blocks / q.device.units);
    const double tiles = fullest * c.warps() * std::ceil(depth / c.depth() / c.split);
    const double warps = std::min(fullest, 1.0 * a_unit) * c.warps();
    const double alone = 1000 + 130.0 * s.eights;  // cycles of one warp
    // H200, 29 November 2026, 14336 × 4096 of i8: 25.1 µs with 1 row, 29.4 with 16, 35.7 with 32.
    const double busy = s.i8() ? 250 + 52.0 * s.eights : 110 + 29.0 * s.eights;
    const double cycles = tiles * std::max(busy, alone / warps);
    const double clock = unit_rates(q.device).f32_flops / 256;
    // 64 KB in flight per multiprocessor keep memory busy.
    const double in_flight = std::min(blocks / q.device.units, 1.0 * a_unit) * (c.stages - 1) *
                             (c.word_bytes(s) + c.scale_bytes(s));
    const double memory = again * product::weight_bytes(op, p) /
                          (0.85 * memory_bytes_per_s(q.device) * std::min(1.0, in_flight / 64e3));
    const double x =
        again * std::ceil(n / c.columns()) * 16 * s.eights * depth / cache_bytes_per_s(q.device);
    const double sums =
        c.split > 1 ? 1.5e-6 + 8 * rows * n * c.split / cache_bytes_per_s(q.device) : 0;
    return 1e3 * (launch_s(q.device) + 2e-6 + std::max({memory, cycles / clock, x}) + sums) +
           1e-9 * c.stages;
  }

  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits);
  }
  static cuda::Launch grid(const State& s, const ProductParams& p) {
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.w.columns, s.config.columns()));
    how.grid.y = static_cast<unsigned>(s.config.split);
    how.grid.z = static_cast<unsigned>(ceil_div(p.m, 8 * std::int64_t{s.traits.eights}));
    return how;
  }
};

}  // namespace

Implementation product_ring_cuda(const ProductOp& op) {
  return kernels::make_cuda<Ring>("cuda_ring", source_hash<"ops/w4/product_ring_cuda.cpp">(), &op);
}

}  // namespace dlblas::w4
