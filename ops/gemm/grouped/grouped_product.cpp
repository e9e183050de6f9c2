// Sizes and strides of grouped products; see grouped.hpp.
#include "ops/gemm/grouped/grouped.hpp"

#include <algorithm>

namespace dlblas::gemm {
namespace {

double size_of_letter(const Problem& p, int letter) { return static_cast<double>(p.dims[letter]); }

/// The last two dimensions of a tensor of rank 2 or 3 as a matrix. The stride of a dimension of
/// size 1 is meaningless and becomes 1.
GroupedMatrix matrix_of(const TensorView& t) {
  const int last = t.rank - 1;
  const auto stride = [&](int i) { return t.shape[i] == 1 ? 1 : t.strides[i]; };
  return {t.data, t.rank > 2 ? t.strides[0] : 0, stride(last - 1), stride(last)};
}
GroupedMatrix transposed(GroupedMatrix m) {
  std::swap(m.row, m.col);
  return m;
}

}  // namespace

GroupedProduct grouped_product(const GroupedOp& op, const Args& args) {
  GroupedProduct p{};
  const bool by_depth = op.kind == GroupKind::kDepth;
  p.a = matrix_of(args.tensors[kGroupedA]), p.b = matrix_of(args.tensors[kGroupedB]);
  if (by_depth) p.a = transposed(p.a);
  if (!by_depth) p.b = transposed(p.b);  // rows of a weight are columns of the product
  p.out = matrix_of(args.tensors[op.out]);
  p.m = args.letters[op.m], p.n = args.letters[op.n];
  p.k = args.letters[op.k], p.groups = args.letters[op.groups];
  return p;
}

double grouped_average(const GroupedOp& op, const Problem& p) {
  const int divided = op.kind == GroupKind::kDepth ? op.k : op.m;
  const double of_all = size_of_letter(p, divided);
  if (op.kind == GroupKind::kMasked) return std::max(1.0, of_all);
  return std::max(1.0, of_all / std::max(1.0, size_of_letter(p, op.groups)));
}

double grouped_multiply_adds(const GroupedOp& op, const Problem& p) {
  const double all = size_of_letter(p, op.m) * size_of_letter(p, op.n) * size_of_letter(p, op.k);
  return op.kind == GroupKind::kMasked ? all * size_of_letter(p, op.groups) : all;
}

double grouped_bytes(const GroupedOp& op, const Problem& p) {
  const double m = size_of_letter(p, op.m), n = size_of_letter(p, op.n),
               k = size_of_letter(p, op.k), groups = size_of_letter(p, op.groups);
  const double in = size_of(p.tensors[kGroupedA].dtype), out = size_of(p.tensors[op.out].dtype);
  if (op.kind == GroupKind::kDepth) return (m + n) * k * in + groups * m * n * out;
  const double rows = op.kind == GroupKind::kMasked ? groups * m : m;
  const double sources = op.gathers() ? std::min(rows, size_of_letter(p, op.sources)) : rows;
  return (sources * k + std::min(groups, rows) * n * k) * in + rows * n * out;
}

Bound grouped_bound(const GroupedOp& op, const Problem& p) {
  const FloatTraits out = float_traits(p.tensors[op.out].dtype);
  const double count = size_of_letter(p, op.k) + 2;
  // Products and sums below f32's normal range: half its smallest step each, or all of the value
  // where they are flushed.
  const bool flushes = p.tensors[kGroupedA].dtype == DType::kBF16;
  const double step = flushes ? 0x1p-126 : float_traits(DType::kF32).tiny / 2;
  return {.magnitude = kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + count * step};
}

}  // namespace dlblas::gemm
