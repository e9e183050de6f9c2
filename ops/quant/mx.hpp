// Definitions of microscaling quantisers, except schema, formula and oracle. Read next: mx_ref.hpp,
// quantize_mxfp8/quantize_mxfp8.cpp.
#pragma once

#include "ops/common/quant_groups/quant_groups.hpp"
#include "ops/quant/mx_ref.hpp"

namespace dlblas::quant {

/// `op` must live as long as the process.
inline OperatorDef quantize_mx(std::string_view schema, std::string_view formula,
                               const QuantGroupsOp& op) {
  OperatorDef def;
  def.family = "quant";
  def.schema = schema;
  def.formula = formula;
  def.letters = {"T", "K"};
  def.bound = [](const Problem&, int) { return Bound{}; };  // one right value
  def.work_per_row = [](const Problem& problem) {
    return 12.0 * static_cast<double>(problem.dims[kMxK]);
  };
  def.implementations = quant_groups_cpu(op);
  def.implementations.push_back(quant_groups_cuda(op));
  return def;
}

}  // namespace dlblas::quant
