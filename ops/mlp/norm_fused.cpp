// The host side of products whose rows are normalised on the way; see norm_fused.hpp. In: a
// Problem, later the Args of a call. Out: a Kernel of one step. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: device/gemm/wgmma_norm.cuh, kernels/wgmma_space.hpp (the
// model).
#include "ops/mlp/norm_fused.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/integers.hpp"
#include "core/rates.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/gemm_gemv.hpp"
#include "kernels/gemm_wgmma.hpp"
#include "kernels/product.hpp"
#include "kernels/wgmma_space.hpp"
#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

using kernels::kNoMemory;

const NormProduct& op_of(const Query& q) { return q.user<NormProduct>(); }

bool is_aligned(const TensorTraits& t) { return (1 << t.align_log2) >= size_of(t.dtype); }
bool has_rows(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided;
}

const TraitsTable<NormedTraits>& normed_table() {
  using T = NormedTraits;
  static const auto* table = new TraitsTable<T>{
      "dlblas::mlp::NormedTraits",
      {member<&T::out>("out"), member<&T::gain>("gain"), member<&T::out_vector>("out_vector"),
       member<&T::aligned>("aligned"), member<&T::gate>("gate")}};
  return *table;
}

// ---- One to four rows ----

kernels::GemvSizes gemv_sizes(const Query& q, const NormProduct& op) {
  const kernels::GemmSize s = normed_size(q);
  return {s.m, s.n, s.k, op.parts};
}

struct GemvForm : kernels::CudaForm<NormedForm, GemvConfig> {
  static constexpr bool kDependent = true;
  static constexpr bool kIsDeterministic = false;  // the order of sums depends on the configuration
  static const ConfigTable<GemvConfig>& table() { return kernels::gemv_table(); }

  static NormedForm traits(const Query& q, const GemvConfig&) {
    return normed_form(q, kernels::gemv_rows(q.problem.dims[op_of(q).t]), 0);
  }
  static void constrain(const Query& q, Space& space) {
    kernels::constrain_gemv(gemv_sizes(q, op_of(q)), space);
  }
  static GemvConfig preset(const Query& q) { return kernels::gemv_preset(gemv_sizes(q, op_of(q))); }
  static double milliseconds(const Query& q, const GemvConfig& c) {
    // H200, 29 November 2026: with one weight and one row 0.6 to 0.95 µs more than the product
    // alone; with two weights 63.9 µs where that takes 53.6, of four rows 26 where it takes 14.5:
    // registers. Two rows are not measured.
    constexpr double kNorm = 0.9e-3, kTwoWeights = 1.2, kRows = 1.2, kFourRows = 1.8;
    const NormProduct& op = op_of(q);
    const std::int64_t rows = q.problem.dims[op.t];
    const double more = op.parts == 2 ? kTwoWeights : rows > 2 ? kFourRows : rows > 1 ? kRows : 1;
    return more * kernels::gemv_ms(gemv_sizes(q, op), c, normed_product_bytes(q), q.device) + kNorm;
  }
  static Support supports(const Query& q) {
    const NormProduct& op = op_of(q);
    const Problem& p = q.problem;
    if (p.dims[op.t] > kernels::kGemvRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(op.x), kernels::kGemvRows,
                         p.dims[op.t]);
    if (p.dims[op.k] == 0) return Support::no("a dimension is zero");
    if (p.dims[op.k] % 8 != 0) return Support::no("K = {} is not a multiple of 8", p.dims[op.k]);
    return normed_operands_fit(q);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{"ops/mlp/norm_programs.cuh",
             kernels::gemm_entry("dlblas::gemm_gemv_normed", s.traits.gemm,
                                 table().literal(table().to_config(s.config), "dlblas::GemvConfig"),
                                 normed_text(op_of(q), "Epilogue", s.traits.normed)),
             0}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// GemvNormParams of an epilogue whose own parameters are a GemmOut.
struct GemvParams {
  GemmCall gemm;
  GemmOut y;
  const void* gain;
  double eps64, inverse_k64;
  float eps, inverse_k;
};

int GemvForm::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const NormProduct*>(s.user);
  const TensorView x = flat(args.tensors[op.x]), y = flat(args.tensors[op.y]);
  TensorView weights[2];
  for (int i = 0; i < op.parts; ++i) weights[i] = flat(args.tensors[op.weights[i]]);
  GemvParams p{};
  p.gemm.m = args.letters[op.t], p.gemm.n = args.letters[op.n], p.gemm.k = args.letters[op.k];
  if (op.parts == 2 && p.gemm.n > 1 && weights[0].strides[0] != weights[1].strides[0]) {
    for (TensorView& w : weights) w = kernels::packed_copy(w, context);
    if (!weights[0].data || !weights[1].data) return kNoMemory;
  }
  p.gemm.a = x.data;
  p.gemm.a_row = p.gemm.m == 1 ? 0 : x.strides[0], p.gemm.a_col = 1;
  for (int i = 0; i < op.parts; ++i) p.gemm.b[i] = weights[i].data;
  p.gemm.b_row = 1, p.gemm.b_col = p.gemm.n == 1 ? 0 : weights[0].strides[0];
  p.y = {y.data, y.strides[0], y.strides[1]};
  p.gain = args.tensors[op.gain].data;
  p.eps64 = args.scalars[op.eps].f, p.eps = static_cast<float>(p.eps64);
  p.inverse_k64 = 1 / static_cast<double>(p.gemm.k);
  p.inverse_k = static_cast<float>(p.inverse_k64);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(ceil_div(op.parts * p.gemm.n, s.config.block_columns()));
  how.block.x = static_cast<unsigned>(s.config.threads());
  how.dependent = s.dependent;
  return cuda::launch(*kernel.entries[0], how, p, context.stream);
}

// ---- Hopper ----

using C = GemmWgmmaConfig;
constexpr std::int64_t kMostRows = 128;

kernels::WgmmaShape shape_of(const Query& q) {
  const NormProduct& op = op_of(q);
  return {normed_size(q),
          normed_product_bytes(q),
          {.parts = op.parts,
           .most_apart = 192,
           .most_together = 112,
           .most_carried = 112,
           .gain_bytes = size_of(q.problem.tensors[op.gain].dtype)},
          q.problem,
          q.device};
}

struct WgmmaForm : kernels::CudaForm<NormedForm, C> {
  static constexpr bool kHopper = true;
  static constexpr bool kDependent = true;
  // Bits repeat from run to run, but the order of sums depends on the configuration, and that on T.
  static constexpr bool kIsDeterministic = false;
  static const ConfigTable<C>& table() { return kernels::wgmma_table(); }

  static NormedForm traits(const Query& q, const C& c) {
    return normed_form(q, 0, shape_of(q).span(c));
  }
  static Support supports(const Query& q) {
    const NormProduct& op = op_of(q);
    const Problem& p = q.problem;
    if (p.dims[op.t] == 0 || p.dims[op.n] == 0 || p.dims[op.k] == 0)
      return Support::no("a dimension is zero");
    if (p.dims[op.t] > kMostRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(op.x), kMostRows,
                         p.dims[op.t]);
    if (const Support operands = normed_operands_fit(q); !operands) return operands;
    if (p.tensors[op.x].dtype == DType::kF16)
      return Support::no(
          "{} in f16 times {} may leave the range of f16, where normalised rows do "
          "not",
          tensor(op.x), tensor(op.gain));
    const TensorTraits& y = p.tensors[op.y];
    if (!has_rows(y)) return Support::no("rows of {} are not contiguous", tensor(op.y));
    if (y.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(op.y),
                         std::int64_t{1} << y.align_log2);
    if (p.dims[op.k] % 8 != 0) return Support::no("K = {} is not a multiple of 8", p.dims[op.k]);
    if (p.dims[op.n] % 8 != 0)  // the copy engine stores 16 bytes or none
      return Support::no("{} columns: rows of {} are no multiples of 16 bytes", p.dims[op.n],
                         tensor(op.y));
    Space space(table());
    constrain(q, space);
    if (space.configs().empty())
      return Support::no("there are more tiles than multiprocessors: a block takes one alone");
    return Support::yes();
  }
  static void constrain(const Query& q, Space& space) { shape_of(q).constrain(space); }
  static double milliseconds(const Query& q, const C& c) {
    // H200, 29 November 2026, 2 × 14336 columns: 60.7 µs with 16 rows, 61.5 with 64, where a norm
    // and gated_linear took 62.1 and 60.6.
    constexpr double kTwoWeights = 1.06;
    const NormProduct& op = op_of(q);
    const bool slower = op.parts == 2 && q.problem.dims[op.t] > 16;
    return shape_of(q).milliseconds(c) * (slower ? kTwoWeights : 1);
  }
  static C preset(const Query& q) {
    const kernels::WgmmaShape shape = shape_of(q);
    return kernels::least_estimate<WgmmaForm>(
        q, {false, 64, 16, 64, 1, false, GemmShare::kNone, 1, 2, false, 8},
        [&](const C& c) { return shape.milliseconds(c); });
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return with_norm(s.config, size_of(s.traits.normed.gain))
        .shared_bytes(true, s.traits.gemm.span);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{"ops/mlp/norm_programs.cuh",
             kernels::wgmma_entry(s.traits.gemm, s.config,
                                  normed_text(op_of(q), "Program", s.traits.normed),
                                  "dlblas::gemm_wgmma_normed"),
             s.shared_bytes}};
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel, void*);
  static std::vector<StepFn> steps(const State&) { return {multiply}; }
};

/// False for a view that a tensor map cannot describe, reversed or overlapping: its layout class is
/// that of a plain one.
bool fits(const TensorView& t) {
  return t.shape[0] <= 1 || (t.strides[0] >= t.shape[1] && t.strides[0] < std::int64_t{1} << 31);
}
kernels::WgmmaMatrix matrix_of(const TensorView& t) {
  return {t.data, t.shape[1], t.shape[0], t.shape[0] <= 1 ? round_up(t.shape[1], 8) : t.strides[0]};
}

int WgmmaForm::multiply(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& s = kernel.load<State>();
  const auto& op = *static_cast<const NormProduct*>(s.user);
  const auto plain = [&](int place) {
    const TensorView t = flat(args.tensors[place]);
    return fits(t) ? t : kernels::packed_copy(t, context);
  };
  const TensorView x = plain(op.x), first = plain(op.weights[0]),
                   second = plain(op.weights[op.parts - 1]), out = plain(op.y);
  if (!x.data || !first.data || !second.data || !out.data) return kNoMemory;
  const kernels::WgmmaProduct product = {.type = s.traits.gemm.type,
                                         .out_type = s.traits.normed.out,
                                         .a = matrix_of(x),
                                         .b = {matrix_of(first), matrix_of(second)},
                                         .out = matrix_of(out),
                                         .a_by_depth = true,
                                         .b_by_depth = true,
                                         .parts = op.parts,
                                         .m = args.letters[op.t],
                                         .n = args.letters[op.n],
                                         .k = args.letters[op.k]};
  GemmWgmmaCall call{};
  cuda::Launch how;
  if (const int code = kernels::prepare_wgmma(product, s.config, s.units, call, how)) return code;
  call.operands[kGemmGainPlace] = {args.tensors[op.gain].data, 1};
  call.operands[kGemmNormedPlace] = {x.data, x.shape[0] <= 1 ? 0 : x.strides[0]};
  const double eps = args.scalars[op.eps].f;
  const auto bits = std::bit_cast<std::uint64_t>(eps);
  call.scalars[kGemmEps] = static_cast<float>(eps);
  call.scalars[kGemmInverseK] = static_cast<float>(1 / static_cast<double>(product.k));
  call.scalars[kGemmEps64] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  call.scalars[kGemmEps64 + 1] = std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));
  how.block.x = static_cast<unsigned>(with_norm(s.config, size_of(s.traits.normed.gain)).threads());
  how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  how.dependent = s.dependent;
  const int code = cuda::launch(*kernel.entries[0], how, call, context.stream);
  const TensorView y = flat(args.tensors[op.y]);
  if (code == 0 && out.data != y.data) kernels::copy_rows(out, y, context.stream);
  return code;
}

}  // namespace

NormedForm normed_form(const Query& q, std::int32_t rows, std::int32_t span) {
  const NormProduct& op = op_of(q);
  const Problem& p = q.problem;
  const TensorTraits& y = p.tensors[op.y];
  NormedForm s{};
  s.gemm.type = p.tensors[op.x].dtype;
  s.gemm.a_by_depth = s.gemm.b_by_depth = true;
  s.gemm.a_whole = s.gemm.b_whole = p.dims[op.k] % 8 == 0;
  s.gemm.aligned = true;
  s.gemm.rows = rows, s.gemm.span = span;
  const bool vectors = has_rows(y) && y.align_log2 >= kAlignCap &&
                       (y.layout == Layout::kRowStrided || p.dims[op.n] % 8 == 0);
  s.normed = {y.dtype, p.tensors[op.gain].dtype, vectors, is_aligned(y),
              static_cast<Gate>(op.is_gated ? p.scalars[0] : 0)};
  return s;
}

std::string normed_text(const NormProduct& op, std::string_view kind, const NormedTraits& traits) {
  return text("dlblas::mlp::Normed", op.is_gated ? "Gated" : "", kind, "<",
              normed_table().literal(traits), ">");
}

kernels::GemmSize normed_size(const Query& q) {
  const NormProduct& op = op_of(q);
  const Problem& p = q.problem;
  return {p.dims[op.t], op.parts * p.dims[op.n], p.dims[op.k]};
}
double normed_product_bytes(const Query& q) {
  const NormProduct& op = op_of(q);
  const kernels::GemmSize s = normed_size(q);
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k);
  return (n * k + m * k + m * n / op.parts) * size_of(q.problem.tensors[op.x].dtype);
}

Support normed_operands_fit(const Query& q) {
  const NormProduct& op = op_of(q);
  const Problem& p = q.problem;
  if (p.tensors[op.x].dtype == DType::kF32)
    return Support::no("f32 stays IEEE here: tensor cores would round it to TF32");
  for (const int i : {op.x, op.weights[0], op.weights[op.parts - 1]}) {
    const TensorTraits& t = p.tensors[i];
    if (!has_rows(t)) return Support::no("{} is not contiguous along K", tensor(i));
    if (t.align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                         std::int64_t{1} << t.align_log2);
  }
  const TensorTraits& gain = p.tensors[op.gain];
  if (gain.layout != Layout::kContiguous || gain.align_log2 < kAlignCap)
    return Support::no("{} is not contiguous from a multiple of 16 bytes on", tensor(op.gain));
  if (!is_aligned(p.tensors[op.y]))
    return Support::no("{} is not aligned to its elements", tensor(op.y));
  constexpr std::int64_t kMax = (std::int64_t{1} << 30) - 1;
  for (const int letter : {op.t, op.k, op.n})
    if (p.dims[letter] > kMax)
      return Support::no("a dimension is {}: at most {}", p.dims[letter], kMax);
  return Support::yes();
}

double composed_milliseconds(const Query& q, const NormProduct& op) {
  // What a norm in front of a product adds in a graph, both with dependent launch: 1.2 to 1.9 µs
  // for 1 to 32 rows of 4096, 1.9 to 2.4 for 64, 2.7 to 3.4 for 128 (H200, 29 November 2026).
  constexpr double kNorm = 1.4e-3, kMemory = 0.3;
  const Problem& p = q.problem;
  const kernels::GemmSize s = {p.dims[op.t], op.parts * p.dims[op.n], p.dims[op.k]};
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k);
  const int size = size_of(p.tensors[op.x].dtype);
  const double bytes = (n * k + m * k + m * n / op.parts) * size;
  double product = roofline_ms(q.device, 1.25 * bytes, 2.5 * m * n * k, p.tensors[op.x].dtype) +
                   1e3 * launch_s(q.device);
  if (size == 2 && s.m <= kernels::kGemvRows) {
    const kernels::GemvSizes sizes{s.m, s.n, s.k, op.parts};
    product =
        std::min(product, kernels::gemv_ms(sizes, kernels::gemv_preset(sizes), bytes, q.device));
  }
  if (size == 2 && q.device.arch == 90 && m * n * k > 0) {
    const kernels::WgmmaShape shape(s, bytes, {.parts = op.parts}, p, q.device);
    Space space(kernels::wgmma_table());
    shape.constrain(space);
    for (const dlblas::Config& config : space.configs())
      product = std::min(product, shape.milliseconds(kernels::wgmma_table().from_config(config)));
  }
  return product + kNorm + 1e3 * 2 * m * k * size / (kMemory * memory_bytes_per_s(q.device));
}

void append_norm_gemv(std::vector<Implementation>& to, const NormProduct& op,
                      const char* source_hash) {
  to.push_back(kernels::make_cuda<GemvForm>("cuda_gemv", source_hash, &op));
}
void append_norm_wgmma(std::vector<Implementation>& to, const NormProduct& op,
                       const char* source_hash) {
  to.push_back(kernels::make_cuda<WgmmaForm>("cuda_wgmma", source_hash, &op));
}

}  // namespace dlblas::mlp
