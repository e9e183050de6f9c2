// What the definitions of cross_entropy_rows and its gradient share. Read next:
// cross_entropy_rows/cross_entropy_rows.cpp.
#pragma once

#include "kernels/rows.hpp"
#include "ops/loss/cross_entropy_ref.hpp"

namespace dlblas::loss {

/// Checks that scalars are in range, and that the sum of weights is given if smoothing needs it.
/// Throws Error(kArgument).
void check_cross_entropy(const Args& args, int weight, int weight_sum);
void fill_cross_entropy(const Args& args, RowCall& call);
/// `weight` and `dlse` are positions of tensors; dlse −1: the operator has none.
void choose_cross_entropy(const Problem& problem, int weight, int dlse, std::int32_t* options);

/// Defines everything but family, schema, formula, oracle and bound of an operator that has tensors
/// class_weight, weight_sum and dlse at these positions, and takes kWork operations per element.
template <int kWeight, int kWeightSum, int kDlse, int kWork>
void add_cross_entropy(OperatorDef& def, kernels::RowOp op) {
  def.letters = {"T", "C"};
  def.check = [](const Args& args) { check_cross_entropy(args, kWeight, kWeightSum); };
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(kWork) * static_cast<double>(problem.dims[kCrossC]);
  };
  op.fill = fill_cross_entropy;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    choose_cross_entropy(problem, kWeight, kDlse, options);
  };
  kernels::add_row_implementations(def, op);
}

}  // namespace dlblas::loss
