// The dequantisers of 4-bit weights: what the definitions share, and the CPU form, one per
// instruction set. A task is some rows of some columns; it widens scales and zeros once per group.
// In: Problem; Args. Out: Kernel; y. Flow: call > validate > [select] > compile > [launch].
// Read next: dequantize_simd.hpp, dequantize_cuda.cpp.
#include "ops/w4/dequantize.hpp"

#include <algorithm>
#include <cstring>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"

namespace dlblas::w4 {
namespace {

struct Level {
  void (*row)(const W4Line&);
};
constexpr Level kBaseline = {baseline::w4_row};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::w4_row}, kAvx512 = {avx512::w4_row};
#endif

struct State {
  const Level* level;
  const W4Op* op;
};

constexpr std::int64_t kRows = 64;  // of a task

std::uint32_t word_at(const W4Matrix& words, std::int64_t row, std::int64_t col) {
  std::uint32_t word = 0;
  std::memcpy(&word, static_cast<const char*>(words.data) + (row * words.row + col * words.col) * 4,
              4);
  return word;
}

/// Dequantises rows [k0, k1) of columns [n0, n0 + columns).
void run_part(const State& s, const Args& args, const W4Params& p, std::int64_t k0, std::int64_t k1,
              std::int64_t n0, std::int64_t columns) {
  const bool along_k = s.op->along_k;
  const TensorView &scales = args.tensors[kScales], &y = args.tensors[kY];
  alignas(64) float zero[kW4Columns], scale[kW4Columns], made[kW4Columns];
  std::uint32_t words[kW4Columns];
  const auto read = [&](std::int64_t row, std::int64_t col, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) words[i] = word_at(p.q, row, col + i);
  };
  const bool side_by_side = p.y.col == 1 || columns == 1;
  for (std::int64_t k = k0; k < k1; ++k) {
    const std::int64_t r = k / p.group;
    if (k == k0 || k % p.group == 0) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t n = n0 + i;
        const std::int64_t place = along_k ? n % 8 : awq_place(n % 8);
        const std::uint32_t stored =
            p.zeros.data ? word_at(p.zeros, r, n / 8) >> 4 * place & 15u : 8u;
        zero[i] = static_cast<float>(stored) + static_cast<float>(p.zeros.data ? p.plus : 0);
        scale[i] = static_cast<float>(load_element(scales, r * p.scales.row + n * p.scales.col));
      }
    }
    if (!along_k)
      read(k, n0 / 8, columns / 8);
    else if (k == k0 || k % 8 == 0)
      read(k / 8, n0, columns);
    const std::int64_t first = k * p.y.row + n0 * p.y.col;
    void* const to = side_by_side ? static_cast<char*>(y.data) + first * size_of(y.dtype)
                                  : static_cast<void*>(made);
    s.level->row({words, zero, scale, columns, along_k ? static_cast<std::int32_t>(k % 8 * 4) : -1,
                  side_by_side ? y.dtype : DType::kF32, to});
    for (std::int64_t i = 0; !side_by_side && i < columns; ++i)
      store_element(y, first + i * p.y.col, static_cast<double>(made[i]));
  }
}

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& s = kernel.load<State>();
  const W4Params p = w4_params(*s.op, args);
  const std::int64_t across = (p.columns + kW4Columns - 1) / kW4Columns;
  const std::int64_t down = (p.depth + kRows - 1) / kRows;
  context.run(0, across * down, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t k0 = i / across * kRows, n0 = i % across * kW4Columns;
      run_part(s, args, p, k0, std::min(p.depth, k0 + kRows), n0,
               std::min<std::int64_t>(kW4Columns, p.columns - n0));
    }
  });
  return 0;
}

/// The letters are R, G, P or Q, N, group.
double elements_of(const Problem& p, const W4Op& op) {
  const auto size = [&](int letter) { return static_cast<double>(p.dims[letter]); };
  return 8 * size(0) * size(1) * (op.along_k ? 1 : size(2));
}

double estimate(const Query& q, const Config&) {
  const double elements = elements_of(q.problem, kernels::op_of<W4Op>(q));
  const double units = std::max<double>(1, q.problem.threads);
  constexpr double kOperations = 8;  // of an element
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units,
                                          elements * (0.5 + size_of(q.problem.tensors[kY].dtype)),
                                          kOperations * elements, DType::kF32);
}

}  // namespace

W4Params w4_params(const W4Op& op, const Args& args) {
  const TensorView& y = args.tensors[kY];
  W4Params p{};
  p.q = matrix_of(args.tensors[kQ]), p.scales = matrix_of(args.tensors[kScales]);
  p.y = matrix_of(y);
  if (args.has(kZeros)) p.zeros = matrix_of(args.tensors[kZeros]);
  p.depth = y.shape[0], p.columns = y.shape[1];
  const std::int64_t groups = args.tensors[kScales].shape[0];
  p.group = groups > 0 ? std::max<std::int64_t>(1, p.depth / groups) : 1;
  p.plus = op.plus >= 0 && args.scalars[op.plus].i != 0 ? 1 : 0;
  return p;
}

std::vector<Implementation> w4_dequantize_cpu(const W4Op& op) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, State{&kernels::code_of<Level>(q), &kernels::op_of<W4Op>(q)});
  };
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash<"ops/w4/dequantize_avx512.cpp">(), &kAvx512},
            {Isa::kAvx2, source_hash<"ops/w4/dequantize_avx2.cpp">(), &kAvx2},
#endif
            {Isa::kBaseline, source_hash<"ops/w4/dequantize_baseline.cpp">(), &kBaseline},
      },
      &op);
}

OperatorDef w4_dequantize(std::string_view schema, std::string_view formula, const W4Op& op) {
  OperatorDef def;
  def.family = "w4";
  def.schema = schema;
  def.formula = formula;
  def.bound = [](const Problem& problem, int) {
    const FloatTraits out = float_traits(problem.tensors[kY].dtype);
    return Bound{.value = out.eps / 2, .absolute = out.tiny};
  };
  def.implementations = w4_dequantize_cpu(op);
  def.implementations.push_back(w4_dequantize_cuda(op));
  return def;
}

}  // namespace dlblas::w4
