// moe_unpermute: the weighted sum of the outputs of a token's experts, read from where moe_permute
// put the rows. Schema, oracle, and kernels for CPUs and NVIDIA GPUs.
// Read next: moe_unpermute_ref.hpp (what it computes), moe_unpermute.cuh, moe_unpermute_simd.hpp.
#include <vector>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/moe_unpermute/moe_unpermute_config.hpp"
#include "ops/moe/moe_unpermute/moe_unpermute_ref.hpp"
#include "ops/moe/sort/sort_cuda.hpp"

namespace dlblas::moe {
namespace {

double bytes_of(const Problem& problem) {
  const double row = static_cast<double>(problem.dims[kUnpermuteC]) *
                     size_of(problem.tensors[kUnpermuteRows].dtype);
  return row * static_cast<double>(problem.dims[kUnpermuteT] * (problem.dims[kUnpermuteK] + 1));
}

// ---- CPUs ----

struct Level {
  MoeUnpermutePasses (*passes)();
};
constexpr Level kBaseline = {baseline::moe_unpermute_passes};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::moe_unpermute_passes};
constexpr Level kAvx512 = {avx512::moe_unpermute_passes};
#endif

constexpr std::int64_t kTile = 2048;  // columns whose sums stay in the nearest cache

/// Contiguous columns of a row: in place, or gathered as f32.
struct Columns {
  const void* at;
  DType type;
};
Columns columns_of(const TensorView& t, std::int64_t first, std::int64_t stride, std::int64_t count,
                   float* scratch) {
  if (stride == 1) return {static_cast<const char*>(t.data) + first * size_of(t.dtype), t.dtype};
  for (std::int64_t i = 0; i < count; ++i)
    scratch[i] = static_cast<float>(load_element(t, first + i * stride));
  return {scratch, DType::kF32};
}

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& passes = kernel.load<MoeUnpermutePasses>();
  const TensorView &x = args.tensors[kUnpermuteRows], &y = args.tensors[kUnpermuteY];
  const TensorView &inverse = args.tensors[kUnpermuteInverse],
                   &weights = args.tensors[kUnpermuteWeights];
  const std::int64_t width = args.letters[kUnpermuteC], choices = args.letters[kUnpermuteK];
  const auto num_rows = static_cast<double>(args.letters[kUnpermuteR]);
  const std::int64_t x_step = width <= 1 ? 1 : x.strides[1], y_step = width <= 1 ? 1 : y.strides[1];
  context.run(0, args.letters[kUnpermuteT], 1, [&](std::int64_t begin, std::int64_t end) {
    float sums[kTile], scratch[kTile];
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t c = 0; c < width; c += kTile) {
        const std::int64_t count = std::min(kTile, width - c);
        std::fill(sums, sums + count, 0.0f);
        for (std::int64_t j = 0; j < choices; ++j) {
          const double row = load_element(inverse, t * inverse.strides[0] + j * inverse.strides[1]);
          if (!(row >= 0 && row < num_rows)) continue;
          const Columns columns =
              columns_of(x, static_cast<std::int64_t>(row) * x.strides[0] + c * x_step, x_step,
                         count, scratch);
          const double weight =
              load_element(weights, t * weights.strides[0] + j * weights.strides[1]);
          passes.add(columns.type, columns.at, count, static_cast<float>(weight), sums);
        }
        const std::int64_t to = t * y.strides[0] + c * y_step;
        if (y_step == 1)
          passes.store(y.dtype, sums, count, static_cast<char*>(y.data) + to * size_of(y.dtype));
        else
          for (std::int64_t i = 0; i < count; ++i)
            store_element(y, to + i * y_step, static_cast<double>(sums[i]));
      }
  });
  return 0;
}

std::vector<Implementation> cpu() {
  Implementation impl;
  impl.flags = {.deterministic = true};
  impl.estimate = [](const Query& q, const Config&) {
    const double units = std::max<double>(1, q.problem.threads);
    const double bytes = bytes_of(q.problem);
    return 1e3 * launch_s(q.device) +
           kernels::rates_of(q).roofline_ms(units, bytes, bytes, DType::kF32);
  };
  impl.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, kernels::code_of<Level>(q).passes());
  };
  return kernels::per_level(impl, "cpu_", {
#if defined(__x86_64__)
    {Isa::kAvx512, source_hash<"ops/moe/moe_unpermute/moe_unpermute_avx512.cpp">(), &kAvx512},
        {Isa::kAvx2, source_hash<"ops/moe/moe_unpermute/moe_unpermute_avx2.cpp">(), &kAvx2},
#endif
        {Isa::kBaseline, source_hash<"ops/moe/moe_unpermute/moe_unpermute_baseline.cpp">(),
         &kBaseline},
  });
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};

struct Form : kernels::CudaForm<MoeUnpermuteTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::moe::MoeUnpermuteTraits",
        {member<&Traits::type>("type"), member<&Traits::weights>("weights"),
         member<&Traits::positions>("positions"), member<&Traits::access>("access"),
         member<&Traits::aligned>("aligned"), member<&Traits::aligned_tables>("aligned_tables")}};
    return *members;
  }
  static Traits traits(const Query& q, const Config&) {
    const TensorTraits* const t = q.problem.tensors;
    const TensorTraits &x = t[kUnpermuteRows], &y = t[kUnpermuteY];
    const int size = size_of(x.dtype);
    Traits s{x.dtype,
             t[kUnpermuteWeights].dtype,
             t[kUnpermuteInverse].dtype,
             1,
             is_aligned(x, size) && is_aligned(y, size),
             is_aligned(t[kUnpermuteInverse], 4) &&
                 is_aligned(t[kUnpermuteWeights], size_of(t[kUnpermuteWeights].dtype))};
    if (!has_rows(x) || !has_rows(y) || !s.aligned) return s;
    const int most = (1 << std::min(x.align_log2, y.align_log2)) / size;
    for (int n = 2; n <= most && q.problem.dims[kUnpermuteC] % n == 0; n *= 2) s.access = n;
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    return 1e3 * (launch_s(q.device) + bytes_of(q.problem) / memory_bytes_per_s(q.device));
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/moe/moe_unpermute/moe_unpermute.cuh",
             "dlblas::moe::moe_unpermute<" + traits_table().literal(s.traits) + ">"}};
  }
  static std::vector<StepFn> steps(const State&) { return {add}; }

  static int add(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const TensorView &x = args.tensors[kUnpermuteRows], &y = args.tensors[kUnpermuteY];
    const TensorView &inverse = args.tensors[kUnpermuteInverse],
                     &weights = args.tensors[kUnpermuteWeights];
    MoeUnpermuteParams p{};
    p.rows = x.data, p.positions = inverse.data, p.weights = weights.data, p.y = y.data;
    p.rows_row = stride_of(x, 0), p.rows_column = stride_of(x, 1);
    p.y_row = stride_of(y, 0), p.y_column = stride_of(y, 1);
    p.positions_outer = stride_of(inverse, 0), p.positions_inner = stride_of(inverse, 1);
    p.weights_outer = stride_of(weights, 0), p.weights_inner = stride_of(weights, 1);
    p.width = args.letters[kUnpermuteC];
    p.num_rows = args.letters[kUnpermuteR];
    p.choices = static_cast<std::int32_t>(args.letters[kUnpermuteK]);
    if (p.width == 0) return 0;
    return launch_blocks(*kernel.entries[0], &p, sizeof p, args.letters[kUnpermuteT],
                         threads_for(p.width, s.traits.access), 0, context);
  }
};

void check(const Args& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t rows = args.letters[kUnpermuteR];
  if (rows <= kMax) return;
  const std::string expected = text("at most ", kMax, " rows");
  throw Error(ErrorKind::kArgument,
              text("moe_unpermute: rows is too large; expected ", expected, ", got ", rows),
              {"moe_unpermute", "rows", expected, text(rows)});
}

}  // namespace

OperatorDef moe_unpermute();
OperatorDef moe_unpermute() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "moe_unpermute(rows: f[R, C], inverse: index[T, topk] ~ index<R, "
      "topk_weights: f32|like(rows)[T, topk]) -> y: like(rows)[T, C] "
      "where R: bucket(tokens), T: bucket(tokens)";
  def.formula = "y[t] = Σ_j topk_weights[t, j] · rows[inverse[t, j]]";
  def.letters = {"R", "C", "T", "topk"};
  def.addresses = {"inverse"};
  kernels::set_row_oracle<moe_unpermute_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const DType type = problem.tensors[kUnpermuteRows].dtype;
    const FloatTraits out = float_traits(type);
    return Bound{.magnitude = (1 + 0x1p-16) * kRounding,
                 .value = type != DType::kF32 ? (1 + 0x1p-20) * out.eps / 2 : 0,
                 .absolute = out.tiny + 0x1p-149 * static_cast<double>(problem.dims[kUnpermuteK])};
  };
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(problem.dims[kUnpermuteK] * problem.dims[kUnpermuteC]);
  };
  def.implementations = cpu();
  def.implementations.push_back(kernels::make_cuda<Form>(
      "cuda_rows", source_hash<"ops/moe/moe_unpermute/moe_unpermute.cpp">()));
  return def;
}

}  // namespace dlblas::moe
