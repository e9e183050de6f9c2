// Leading dimensions as rows; see matrices.hpp.
#include "ops/mlp/matrices.hpp"

#include <utility>

#include "kernels/product.hpp"

namespace dlblas::mlp {

TensorView flat(const TensorView& t) { return kernels::flat_rows(t); }

void check_rows(const Args& args, std::initializer_list<int> tensors) {
  kernels::check_flat_rows(args, tensors);
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
