// The general GPU form of the scaled products. In: any Problem. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: scaled_mma.cuh.
#include <algorithm>
#include <cmath>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/scaled/scaled_cuda.hpp"

namespace dlblas::gemm::scaled {
namespace {

/// The longest sums of i8 that fit into i32: 2^17 − 1 products of 2^14.
constexpr std::int64_t kLongestInteger = (std::int64_t{1} << 17) - 1;

bool along_k(const TensorTraits& t, bool k_is_last) {
  return k_is_last ? t.layout != Layout::kTransposed : t.layout == Layout::kTransposed;
}
/// Rows are contiguous along K and begin at multiples of 16 bytes.
bool is_vector(const TensorTraits& t, bool k_is_last) {
  const bool rows = k_is_last ? t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided
                              : t.layout == Layout::kTransposed;
  return rows && t.align_log2 >= kAlignCap;
}

struct Form : kernels::CudaForm<ScaledTraits, ScaledMmaConfig> {
  static constexpr const char* kInclude = "ops/gemm/scaled/scaled_mma.cuh";
  static constexpr const char* kEntry = "dlblas::gemm::scaled::scaled_mma";
  static constexpr const char* kConfigName = "dlblas::gemm::scaled::ScaledMmaConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::block_m>("block_m", {16, 32, 64, 128})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return scaled_traits_table(); }

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
    const std::int64_t blocks = ceil_div(p.dims[kM], 16) * ceil_div(p.dims[kN], Config::kColumns);
    if (p.dims[kM] > kMax || p.dims[kN] > kMax || blocks > kMax)
      return Support::no("the result has {} tiles: more than a grid has blocks", blocks);
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) {
    space.require(
        table(), "block_m_distinct", {"block_m"},
        [m = q.problem.dims[kM]](const Config& c) { return c.block_m == 16 || c.block_m / 2 < m; });
  }
  static Traits traits(const Query& q, const Config&) {
    return scaled_traits(q.problem, scales_of(q.self.user));
  }
  static std::int32_t shared_bytes(const Query&, const State& s) { return s.config.shared_bytes(); }

  static double milliseconds(const Query& q, const Config& c) {
    const Problem& p = q.problem;
    const Traits s = traits(q, c);
    const double tiles = static_cast<double>(ceil_div(p.dims[kM], c.block_m)) *
                         static_cast<double>(ceil_div(p.dims[kN], Config::kColumns));
    const double waves = std::ceil(tiles / q.device.units);
    const auto depth = static_cast<double>(p.dims[kK]) + Config::kDepth;
    // Not measured yet: a third of the f16 rate, and single-code loads where codes are not
    // contiguous along K.
    const double part = 0.3 * c.block_m / (c.block_m + 32) * (s.b_vector ? 1 : 0.4);
    const double products =
        waves * 2 * depth * c.block_m * Config::kColumns / (part * unit_rates(q.device).half_flops);
    const double alone = depth / Config::kDepth * 1.2e-6;
    return 1e3 * (std::max({products, alone, bytes_of(p) / memory_bytes_per_s(q.device)}) + 4e-6);
  }
  static Config preset(const Query& q) {
    Config best{16};
    double best_ms = milliseconds(q, best);
    for (const int block_m : {32, 64, 128}) {
      const Config c{block_m};
      if (c.block_m / 2 >= q.problem.dims[kM]) break;
      const double ms = milliseconds(q, c);
      if (ms < best_ms) best = c, best_ms = ms;
    }
    return best;
  }
  static ScaledParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const ScaledParams p = scaled_params(args, scales_of(s.user));
    how.grid.x =
        static_cast<unsigned>(ceil_div(p.m, s.config.block_m) * ceil_div(p.n, Config::kColumns));
    how.block.x = Config::kThreads;
    return p;
  }
};

}  // namespace

const TraitsTable<ScaledTraits>& scaled_traits_table() {
  using T = ScaledTraits;
  static const auto* members = new TraitsTable<T>{
      "dlblas::gemm::scaled::ScaledTraits",
      {member<&T::type>("type"), member<&T::a_along>("a_along"), member<&T::b_along>("b_along"),
       member<&T::a_vector>("a_vector"), member<&T::b_vector>("b_vector"),
       member<&T::blocks>("blocks"), member<&T::integers>("integers"), member<&T::out>("out"),
       member<&T::out_pairs>("out_pairs"), member<&T::bias>("bias"),
       member<&T::aligned>("aligned")}};
  return *members;
}

ScaledTraits scaled_traits(const Problem& p, Scales scales) {
  const TensorTraits &a = p.tensors[kA], &b = p.tensors[kB], &out = p.tensors[kOut];
  ScaledTraits s{};
  s.type = a.dtype;
  s.a_along = along_k(a, true), s.b_along = along_k(b, false);
  s.a_vector = is_vector(a, true), s.b_vector = is_vector(b, false);
  s.blocks = scales == Scales::kBlock;
  s.integers = s.type == DType::kI8 && !s.blocks && p.dims[kK] <= kLongestInteger;
  s.out = out.dtype;
  // A result that is not allocated yet has rows of N elements.
  const bool even = out.layout == Layout::kRowStrided ||
                    (out.layout == Layout::kContiguous && p.dims[kN] % 2 == 0);
  s.out_pairs = even && (1 << out.align_log2) >= 2 * size_of(out.dtype);
  s.bias = p.tensors[kBias].dtype;
  s.aligned = is_aligned(p);
  return s;
}

ScaledParams scaled_params(const Args& args, Scales scales) {
  const ScaledJob c = job_of(args, scales);
  ScaledParams p{};
  p.a = c.a.data, p.a_row = c.a.row, p.a_col = c.a.col;
  p.b = c.b.data, p.b_row = c.b.row, p.b_col = c.b.col;
  p.a_scale = c.a_scale.data, p.b_scale = c.b_scale.data, p.bias = c.bias.data;
  p.a_scale_row = c.a_scale.row, p.a_scale_group = c.a_scale.col;
  p.b_scale_group = c.b_scale.row, p.b_scale_col = c.b_scale.col;
  p.bias_col = c.bias.col;
  p.out = c.out.data, p.out_row = c.out.row, p.out_col = c.out.col;
  p.m = c.m, p.n = c.n, p.k = c.k;
  return p;
}

void append_mma(std::vector<Implementation>& to, Scales scales) {
  to.push_back(kernels::make_cuda<Form>("cuda_mma",
                                        source_hash<"ops/gemm/scaled/scaled_mma_cuda.cpp">(),
                                        &kScalesOf[static_cast<int>(scales)]));
}

}  // namespace dlblas::gemm::scaled
