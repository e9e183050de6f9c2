// The oracle of the scaled products on the host: the listed rows, column by column, see
// scaled_ref.hpp. In: Args with any strides. Read next: scaled_ref.hpp, registry/operator.hpp.
#include "ops/gemm/scaled/scaled_ref.hpp"

#include <algorithm>
#include <vector>

#include "core/element.hpp"
#include "core/error.hpp"
#include "ops/gemm/scaled/scaled.hpp"
#include "ops/gemm/scaled/scaled_reference.hpp"

namespace dlblas::gemm::scaled {
namespace {

static_assert(kOracleGroup == kGroup);

/// Element (row, col) of a tensor whose leading dimensions are rows; a single scale stands for all
/// rows.
class Matrix {
 public:
  Matrix(const TensorView& t) : t_(t), rows_(rows_of(t)) {}
  double operator()(std::int64_t row, std::int64_t col) const {
    return load_element(t_, rows_.offset(row) + col * t_.strides[t_.rank - 1]);
  }

 private:
  const TensorView& t_;
  Rows rows_;
};

double of_vector(const TensorView& t, std::int64_t i) {
  return load_element(t, t.shape[0] == 1 ? 0 : i * t.strides[0]);
}

template <Scales kScales>
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  constexpr bool kBlocks = kScales == Scales::kBlock;
  const TensorView& b_scales = args.tensors[kBScale];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  const Matrix a(args.tensors[kA]), b(args.tensors[kB]), a_scale(args.tensors[kAScale]),
      b_scale(b_scales);
  const ScaledRule rule = scaled_rule(args.tensors[kA].dtype, k, kBlocks);
  std::vector<double> a_rows(static_cast<std::size_t>(num_rows * k));
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t i = 0; i < k; ++i) a_rows[r * k + i] = a(rows[r], i);
  }
  std::vector<double> column(static_cast<std::size_t>(k));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < k; ++i) column[i] = b(i, j);
    const double bias = args.has(kBias) ? of_vector(args.tensors[kBias], j) : 0;
    for (std::int64_t r = 0; r < num_rows; ++r) {
      const double* row = a_rows.data() + r * k;
      const auto terms = [&](ScaledWalk& walk, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) walk.add(row[i] * column[i]);
      };
      const auto factor = [&](std::int64_t group) {
        return scaled_factor(a_scale(rows[r], group),
                             kBlocks ? b_scale(group, j / kOracleGroup) : of_vector(b_scales, j));
      };
      const OracleValue of = scaled_element(rule, terms, factor, bias);
      out->value[r * n + j] = of.value;
      out->magnitude[r * n + j] = of.magnitude;
    }
  }
}

double work_per_row(const Problem& p) {
  return 3 * static_cast<double>(p.dims[kK]) * static_cast<double>(p.dims[kN]);
}

/// Tensors of three and more dimensions are supported where their rows have a single stride.
void check_rows(const Args& args) {
  const std::string op(args.schema->name);
  for (const int i : {int{kA}, int{kAScale}, int{kOut}}) {
    const TensorView& t = args.tensors[i];
    if (t.rank < 2 || rows_of(t).rank == 1 || t.numel() == 0) continue;
    const std::string name = args.schema->tensors[static_cast<std::size_t>(i)].name;
    const char* expected = "rows at one stride";
    throw Error(ErrorKind::kArgument,
                text(op, ": ", name, " has leading dimensions that do not flatten; expected ",
                     expected, ", got several strides; pass a contiguous copy"),
                {op, name, expected, "several strides"});
  }
}

}  // namespace

Bound bound(const Problem& p, int) {
  const FloatTraits out = float_traits(p.tensors[kOut].dtype);
  const double groups = static_cast<double>(ceil_div(p.dims[kK], kGroup));
  return {.magnitude = 1 + kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + (groups + 4) * float_traits(DType::kF32).tiny};
}

void channel_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                       OracleOut* out) {
  reference<Scales::kChannel>(args, rows, num_rows, out);
}

double bytes_of(const Problem& p) {
  const auto m = static_cast<double>(p.dims[kM]), n = static_cast<double>(p.dims[kN]),
             k = static_cast<double>(p.dims[kK]);
  return m * k + k * n + m * n * size_of(p.tensors[kOut].dtype);
}

bool is_aligned(const Problem& p) {
  return std::all_of(p.tensors, p.tensors + kOut + 1, [](const TensorTraits& t) {
    return t.dtype == DType::kAbsent || (1 << t.align_log2) >= size_of(t.dtype);
  });
}

void define(OperatorDef& def, Scales scales) {
  def.family = "gemm";
  def.letters = {"M", "K", "N"};
  const bool blocks = scales == Scales::kBlock;
  def.reference = blocks ? reference<Scales::kBlock> : channel_reference;
  def.device_oracle = device_oracle(scales);
  def.bound = bound;
  def.check = check_rows;
  def.work_per_row = work_per_row;
  append_tiles(def.implementations, scales);
  if (!blocks) append_vnni(def.implementations);
  if (!blocks) append_i16(def.implementations);
  append_cpu(def.implementations, scales);
  if (!blocks) append_onednn(def.implementations);
  append_wgmma(def.implementations, scales);
  append_cublaslt(def.implementations, scales);
  append_mma(def.implementations, scales);
}

}  // namespace dlblas::gemm::scaled
