// batched_scaled_mm on Hopper's 8-bit WGMMA: the supported problems, the estimated time of a tile,
// and the launch of at most one persistent block per multiprocessor for the tiles of all matrices.
// In: codes along K in rows of 16 bytes, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: batched_scaled_wgmma.cuh.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "ops/gemm/batched_scaled_mm/batched_scaled_config.hpp"
#include "ops/gemm/batched_scaled_mm/batched_scaled_mm.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"
#include "ops/gemm/scaled/scaled_cuda.hpp"

namespace dlblas::gemm::scaled {
namespace {

constexpr std::int64_t kGroupPairs = 64;  // of codes along K: a stage

/// Rows of K of all matrices, as pairs of codes; or rows of the result. `apart`: from matrix to
/// matrix, as `one` counts.
struct Stack {
  Columns one;
  std::int64_t apart, count;
  DType type;  // of what is counted

  bool fits() const { return one.fits() && (count <= 1 || apart > 0); }
  Columns at(std::int64_t i) const {
    Columns c = one;
    c.data = static_cast<const char*>(one.data) + i * apart * size_of(type);
    return c;
  }
  kernels::WgmmaMatrix map() const {
    return {one.data, one.rows, one.cols, one.pitch, count, apart};
  }
  /// A plain stack for views that the copy engine cannot read, reversed or overlapping: their
  /// layout class is that of plain ones. Null data: out of memory.
  Stack plain(const Context& context) const {
    if (fits()) return *this;
    const Columns all = packed({one.data, one.rows, one.cols * count, one.pitch}, type, context, 8);
    return {{all.data, one.rows, one.cols, all.pitch}, one.cols * all.pitch, count, type};
  }
  void copy_to(const Stack& to, void* stream) const {
    for (std::int64_t i = 0; i < count; ++i) copy_columns(at(i), to.at(i), type, stream);
  }
};

struct Traits {
  DType type;
  ScaledProgramTraits program;
};

std::int64_t rows_each(std::int64_t m, const GemmWgmmaConfig& c) { return round_up(m, c.block_m); }

struct Form : kernels::CudaForm<Traits, BatchedScaledConfig> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  static constexpr const auto& kTiles = kBatchedScaledTiles;

  static const ConfigTable<Config>& table() {
    static const ConfigTable<Config>* const knobs = [] {
      auto* labels = new std::vector<std::string>;  // live as long as the process
      std::vector<std::int64_t> values;
      for (int i = 0; i < kBatchedScaledCount; ++i) {
        values.push_back(i);
        labels->push_back(text(kTiles[i].block_m, "x", kTiles[i].block_n));
      }
      return new ConfigTable<Config>{
          field<&Config::tile>("tile", values, {labels->begin(), labels->end()})};
    }();
    return *knobs;
  }
  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    return {p.tensors[kA].dtype,
            {.out = p.tensors[kOut].dtype,
             .bias = p.tensors[kBias].dtype,
             .blocks = false,
             .each_row = false,
             .each_column = false}};
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return kTiles[s.config.tile].shared_bytes(true, 0);
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1, kBlock = 128;
    const Problem p = scaled_matrix_problem(q.problem);
    const std::int64_t batch = q.problem.dims[kBatch], m = p.dims[kM], n = p.dims[kN],
                       k = p.dims[kK];
    if (batch == 0 || m == 0 || n == 0 || k == 0) return Support::no("a dimension is zero");
    for (const int i : {int{kA}, int{kB}})
      if (is_broadcast(q.problem.tensors[i].layout))
        return Support::no("{} repeats a matrix or a row", tensor(i));
    const TensorTraits &a = p.tensors[kA], &b = p.tensors[kB], &out = p.tensors[kOut],
                       &bias = p.tensors[kBias];
    if (k % 2 != 0) return Support::no("K = {} is odd: codes are copied in pairs", k);
    if (a.align_log2 < kAlignCap ||
        (a.layout != Layout::kContiguous && a.layout != Layout::kRowStrided))
      return Support::no("{} has no rows along K at multiples of 16 bytes", tensor(kA));
    if (b.align_log2 < kAlignCap || b.layout != Layout::kTransposed)
      return Support::no("{} has no columns along K at multiples of 16 bytes", tensor(kB));
    if (a.dtype == DType::kI8 && k >= std::int64_t{1} << 17)
      return Support::no("K = {}: i32 holds sums of 131071 terms", k);
    const std::int64_t whole = 16 / size_of(out.dtype);  // the copy engine stores 16 bytes or none
    if ((out.layout != Layout::kContiguous && out.layout != Layout::kRowStrided) ||
        out.align_log2 < kAlignCap || n % whole != 0)
      return Support::no("rows of {} are no multiples of 16 bytes", tensor(kOut));
    if (bias.dtype != DType::kAbsent && (bias.layout != Layout::kContiguous || bias.align_log2 < 3))
      return Support::no("{} is not contiguous from a multiple of 8 bytes on", tensor(kBias));
    for (const int i : {int{kAScale}, int{kBScale}})
      if (q.problem.tensors[i].align_log2 < 2) return Support::no("{} is not aligned", tensor(i));
    if (batch > kMax / (m + kBlock) || batch * ceil_div(m, 64) > kMax / ceil_div(n, 32))
      return Support::no("rows of all matrices, or their tiles, are more than 31 bits count");
    return Support::yes();
  }
  static Support same_bits(const Query&) {
    return Support::no("adds up in another order than the kernels of one matrix");
  }
  static void constrain(const Query& q, Space& space) {
    const std::int64_t m = q.problem.dims[kBatchedM], n = q.problem.dims[kBatchedN];
    const std::int64_t room = q.device.shared_bytes_per_block;
    space.require(table(), "tile_fits", {"tile"}, [m, n, room](const Config& c) {
      const GemmWgmmaConfig& t = kTiles[c.tile];
      return t.shared_bytes(true, 0) <= room && (t.block_m == 64 || t.block_m / 2 < m) &&
             (t.block_n == 32 || t.block_n / 2 < n);
    });
  }

  /// Waves of tiles, each stage of K at the rates of scaled_wgmma_cuda.cpp's model. On an H200 it
  /// chose this kernel wherever it was the fastest of the three, in six shapes.
  static double milliseconds(const Query& q, const Config& config) {
    const Problem p = scaled_matrix_problem(q.problem);
    const GemmWgmmaConfig& c = kTiles[config.tile];
    const auto batch = static_cast<double>(q.problem.dims[kBatch]);
    const double tiles = batch * static_cast<double>(ceil_div(p.dims[kM], c.block_m)) *
                         static_cast<double>(ceil_div(p.dims[kN], c.block_n));
    const double waves = std::ceil(tiles / q.device.units);
    const auto stages = static_cast<double>(ceil_div(p.dims[kK], 2 * kGroupPairs));
    const Rates unit = unit_rates(q.device);
    const double multiply = 2.0 * c.block_m * c.block_n * 128 / (2.66 * unit.half_flops);
    const double copied = 128.0 * (c.block_m + c.block_n) / (1.33 * unit.alone_bytes_per_s);
    const double product = waves * (stages * (0.045e-6 + std::max(multiply, copied)) + 1.4e-6);
    const double memory = batch * bytes_of(p) / (0.9 * memory_bytes_per_s(q.device));
    return 1e3 * (std::max(product, memory) + 2e-6);
  }
  static Config preset(const Query& q) {
    return kernels::least_estimate<Form>(q, {kBatchedScaledCount - 1});
  }

  static std::vector<KernelSource> sources(const Query&, const State& s) {
    using T = ScaledProgramTraits;
    static const auto* members = new TraitsTable<T>{
        "dlblas::gemm::scaled::ScaledProgramTraits",
        {member<&T::out>("out"), member<&T::bias>("bias"), member<&T::blocks>("blocks"),
         member<&T::each_row>("each_row"), member<&T::each_column>("each_column")}};
    GemmTraits g{};
    g.type = s.traits.type;
    g.a_by_depth = g.b_by_depth = g.a_whole = g.b_whole = g.aligned = true;
    return {{"ops/gemm/batched_scaled_mm/batched_scaled_wgmma.cuh",
             text("dlblas::gemm::scaled::batched_scaled_wgmma<",
                  kernels::gemm_traits_table().literal(g), ", ", members->literal(s.traits.program),
                  ", dlblas::gemm::scaled::BatchedScaledConfig{", s.config.tile, "}>"),
             s.shared_bytes}};
  }

  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// Codes of one matrix along K as pairs.
Stack codes_of(const void* data, std::int64_t k, std::int64_t rows, std::int64_t row,
               std::int64_t apart, std::int64_t count) {
  const std::int64_t pitch = rows > 1 ? row / 2 : round_up(k, 16) / 2;
  return {{data, k / 2, rows, pitch}, apart / 2, count, DType::kF16};
}

int Form::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const GemmWgmmaConfig& c = kTiles[s.config.tile];
  const ScaledParams p = scaled_params(scaled_matrix_args(args, 0), Scales::kChannel);
  const DType out_type = s.traits.program.out;
  const std::int64_t batch = args.letters[kBatch], each = rows_each(p.m, c);
  const auto apart = [&](int tensor) { return batch_stride(args.tensors[tensor]); };
  const Stack a = codes_of(p.a, p.k, p.m, p.a_row, apart(kA), batch);
  const Stack b = codes_of(p.b, p.k, p.n, p.b_col, apart(kB), batch);
  const std::int64_t pitch = p.m > 1 ? p.out_row : round_up(p.n, 8);
  const Stack out = {{p.out, p.n, p.m, pitch}, apart(kOut), batch, out_type};
  const Stack in_a = a.plain(context), in_b = b.plain(context), in_out = out.plain(context);
  if (!in_a.one.data || !in_b.one.data || !in_out.one.data) return kNoMemory;
  if (!a.fits()) a.copy_to(in_a, context.stream);
  if (!b.fits()) b.copy_to(in_b, context.stream);
  const kernels::WgmmaProduct product = {.type = DType::kF16,
                                         .out_type = out_type,
                                         .a = in_a.map(),
                                         .b = {in_b.map(), {}},
                                         .out = in_out.map(),
                                         .a_by_depth = true,
                                         .b_by_depth = true,
                                         .parts = 1,
                                         .m = batch * each,
                                         .n = p.n,
                                         .k = ceil_div(p.k, 2)};
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, c, s.units, call, how)) return code;
  call.rows_each = static_cast<std::int32_t>(each);
  // Rows of tiles that are walked together share b: those of one matrix, or a band of it.
  const auto tiles = static_cast<std::int32_t>(each / c.block_m);
  if (tiles <= 2 * c.group_m) call.group = tiles;
  call.operands[0] = {const_cast<void*>(p.a_scale), 0};
  call.operands[2] = {const_cast<void*>(p.b_scale), 0};
  call.operands[4] = {const_cast<void*>(p.bias), 0};
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  if (code == 0 && !out.fits()) in_out.copy_to(out, context.stream);
  return code;
}

}  // namespace

Implementation batched_scaled_wgmma() {
  return kernels::make_cuda<Form>(
      "cuda_wgmma", source_hash<"ops/gemm/batched_scaled_mm/batched_scaled_wgmma_cuda.cpp">());
}

}  // namespace dlblas::gemm::scaled
