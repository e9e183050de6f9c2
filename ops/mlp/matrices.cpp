// Leading dimensions as rows; see matrices.hpp.
#include "ops/mlp/matrices.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/schema.hpp"

namespace dlblas::mlp {

TensorView flat(const TensorView& t) {
  const Rows rows = rows_of(t);
  TensorView matrix = t;
  matrix.rank = 2;
  matrix.shape[0] = rows.count, matrix.shape[1] = t.shape[t.rank - 1];
  matrix.strides[0] = rows.count == 1 ? matrix.shape[1] : rows.stride;
  matrix.strides[1] = matrix.shape[1] == 1 ? 1 : t.strides[t.rank - 1];
  return matrix;
}

void check_rows(const Args& args, std::initializer_list<int> tensors) {
  for (const int i : tensors) {
    const TensorView& t = args.tensors[i];
    if (rows_of(t).rank == 1 || t.numel() == 0) continue;
    const std::string &op = args.schema->name,
                      &name = args.schema->tensors[static_cast<std::size_t>(i)].name;
    const char* expected = "rows at one stride";
    throw Error(ErrorKind::kArgument,
                text(op, ": ", name, " has leading dimensions that do not flatten; expected ",
                     expected, ", got several strides; pass a contiguous copy"),
                {op, name, expected, "several strides"});
  }
}

TensorTraits exchanged(TensorTraits t) {
  t.layout = t.layout == Layout::kTransposed ? Layout::kContiguous : Layout::kTransposed;
  return t;
}

TensorView exchanged(const TensorView& t) {
  TensorView b = t;
  std::swap(b.shape[0], b.shape[1]);
  std::swap(b.strides[0], b.strides[1]);
  return b;
}

bool lies_plainly(Layout layout) {
  return layout == Layout::kContiguous || layout == Layout::kRowStrided ||
         layout == Layout::kTransposed;
}

}  // namespace dlblas::mlp
